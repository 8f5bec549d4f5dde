//! The printed output, and the missed targets.

use std::time::Duration;

use anyhow::Result;
use syncguard_bench::sorted::Sorted;
use syncguard_bench::{Options, Report};

use crate::figures::Figures;
use crate::floor::Floor;
use crate::row::{Measured, Row};

pub(crate) struct Tables {
    options: Options,
    store: &'static str,
    report: Report,
}

/// The targets of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    /// Equal shares, and no failures.
    Success,
    /// Fast hand-overs and few commands as well.
    Speed,
}

impl Tables {
    pub(crate) fn new(options: Options) -> Result<Self> {
        // A bad value is an error at the start.
        options.time(0)?;
        Ok(Self { options, store: "", report: Report::default() })
    }

    /// The time of a row: `--seconds`, or else this time in ms.
    pub(crate) fn time(&self, otherwise: u64) -> Result<Duration> {
        self.options.time(otherwise)
    }

    pub(crate) fn wants_store(&self, store: &str) -> bool {
        self.options.wants("--store", |only| only == store)
    }

    pub(crate) fn wants_row(&self, row: &str) -> bool {
        self.options.wants("--row", |part| row.contains(part))
    }

    /// Begins the table of a store.
    pub(crate) fn store(&mut self, store: &'static str) {
        self.store = store;
        println!(
            "\n{store:<26} {:>8} {:>7} {:>8} {:>6} {:>7} {:>6} {:>4}",
            "p50 ms", "x floor", "p99 ms", "in use", "longest", "cmds", "fail"
        );
    }

    /// A line for what the others are compared with.
    pub(crate) fn floor(&mut self, name: &str, times: &Sorted) {
        let [p50, p99] = [0.5, 0.99].map(|part| times.quantile(part));
        println!("{name:<26} {p50:>8.3} {:>7} {p99:>8.3}", "");
    }

    /// Measures a row, prints it and compares it with its targets.
    pub(crate) async fn contest(
        &mut self,
        row: &Row,
        on: Measured<'_>,
        floor: Option<&Floor>,
        asked: Asked,
    ) -> Result<()> {
        if !self.wants_row(row.name) {
            return Ok(());
        }
        // The first process has the key to itself for 0.9 s, so fewer turns say little about the shares.
        let figures = row.measure(on, self.time(10_000.max(row.work * 300))?).await?;
        let Figures { p50, p99, in_use, commands, .. } = figures;
        let name = row.name;
        let floor = floor.map_or(f64::NAN, |floor| {
            let times = if row.processes == 1 { &floor.inside } else { &floor.between };
            times.quantile(0.5)
        });
        let over_floor = p50 / floor;
        let failed: u64 = figures.failed.iter().sum();
        println!(
            "{name:<26} {p50:>8.3} {over_floor:>7.2} {p99:>8.2} {in_use:>6.2} {:>7} {commands:>6.2} \
             {failed:>4}",
            seconds(figures.longest_waits.iter().copied().fold(0.0, f64::max))
        );
        if failed > 0 {
            println!("    {:?}", figures.failures);
        }
        if row.processes > 1 {
            let Figures { shares, longest_waits, .. } = &figures;
            println!(
                "    shares {}; waits {}",
                list(shares, percent),
                list(longest_waits, seconds)
            );
        }
        if asked == Asked::Nothing {
            return Ok(());
        }
        self.at_most(name, "failures", failed as f64, 0.0);
        if row.processes == 4 {
            let most = figures.shares.iter().copied().fold(0.0, f64::max);
            let least = figures.shares.iter().copied().fold(1.0, f64::min);
            self.at_most(name, "largest share of a process", most, 0.35);
            self.at_least(name, "smallest share of a process", least, 0.15);
        }
        if asked == Asked::Speed {
            self.at_most(name, "hand-over p50 over the floor", over_floor, 1.5);
            // A lock that hands over as fast as the floor is in use for this part of the time.
            let work = row.work as f64;
            let possible = work / (work + floor);
            self.at_least(name, "in use, of the possible", in_use / possible, 0.75);
            self.at_most(name, "commands a hand-over", commands, 5.0);
        }
        Ok(())
    }

    /// A line for processes that differ.
    pub(crate) fn beside(&mut self, name: &str, figures: &Figures) {
        let Figures { in_use, shares, longest_waits, turns, failed, commands, .. } = figures;
        let in_vain: Vec<f64> =
            turns.iter().zip(failed).map(|(turns, failed)| part_of(*failed, *turns)).collect();
        println!(
            "{name:<26} shares {}; longest waits {}; in vain {}; in use {in_use:.2}, {commands:.2} \
             commands",
            list(shares, percent),
            list(longest_waits, seconds),
            list(&in_vain, |part| format!("{:.1} %", part * 100.0))
        );
    }

    /// A target that is met by this much or less.
    pub(crate) fn at_most(&mut self, row: &str, what: &str, is: f64, most: f64) {
        self.report.at_most(&format!("{}, {row}, {what}", self.store), is, most);
    }

    /// A target that is met by this much or more.
    pub(crate) fn at_least(&mut self, row: &str, what: &str, is: f64, least: f64) {
        self.report.at_least(&format!("{}, {row}, {what}", self.store), is, least);
    }

    /// Prints the sum.
    pub(crate) fn end(self) -> Result<()> {
        self.report.end(self.options.check)
    }
}

/// The part of waits that failed.
pub(crate) fn part_of(failed: u64, turns: usize) -> f64 {
    failed as f64 / (turns as f64 + failed as f64).max(1.0)
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn seconds(ms: f64) -> String {
    format!("{:.2} s", ms / 1000.0)
}

fn list(values: &[f64], text: fn(f64) -> String) -> String {
    values.iter().map(|value| text(*value)).collect::<Vec<_>>().join(", ")
}
