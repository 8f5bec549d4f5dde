//! The printed output, the file, and the missed targets.

use anyhow::Result;
use serde_json::{Value as Json, json};
use syncguard_bench::Targets;

use crate::figures::{Figures, Sorted};
use crate::row::{Row, failures_as_text};
use crate::targets::{SHARE_OF_FOUR, Target};

pub(crate) struct Report {
    store: &'static str,
    rows: Vec<Json>,
    targets: Targets,
}

impl Default for Report {
    fn default() -> Self {
        Self { store: "", rows: Vec::new(), targets: Targets::only_missed() }
    }
}

impl Report {
    /// Begins the table of a store.
    pub(crate) fn store(&mut self, store: &'static str) {
        self.store = store;
        println!(
            "\n{store:<26} {:>8} {:>7} {:>8} {:>8} {:>6} {:>7} {:>6} {:>6} {:>4}",
            "p50 ms", "x floor", "p99 ms", "max ms", "in use", "longest", "/ideal", "cmds", "fail"
        );
    }

    /// A line for what the others are compared with.
    pub(crate) fn floor(&mut self, name: &str, times: &Sorted) {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| times.quantile(part));
        println!("{name:<26} {p50:>8.3} {:>7} {p99:>8.3} {max:>8.1}", "");
        self.rows.push(json!({
            "store": self.store, "row": name, "p50_ms": p50, "p99_ms": p99, "max_ms": max,
        }));
    }

    /// A line for a row. `floor` is the median it is compared with, in ms.
    pub(crate) fn row(&mut self, row: &Row, figures: &Figures, commands: f64, floor: Option<f64>) {
        let Figures { p50, p99, max, in_use, longest_wait, over_ideal, .. } = figures;
        let failed: u64 = figures.failures.values().sum();
        let over_floor = floor.map(|floor| p50 / floor);
        let ratio = over_floor.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let longest = format!("{:.2} s", longest_wait / 1000.0);
        println!(
            "{:<26} {p50:>8.3} {ratio:>7} {p99:>8.2} {max:>8.1} {in_use:>6.2} {longest:>7} \
             {over_ideal:>6.2} {commands:>6.2} {failed:>4}",
            row.name
        );
        if failed > 0 {
            println!("    {}", failures_as_text(&figures.failures));
        }
        if row.ways.len() > 1 {
            let percent = |part: &f64| format!("{:.0} %", part * 100.0);
            let seconds = |ms: &f64| format!("{:.2} s", ms / 1000.0);
            let [shares, waits] = [
                figures.shares.iter().map(percent).collect::<Vec<_>>(),
                figures.longest_waits.iter().map(seconds).collect::<Vec<_>>(),
            ];
            println!("    shares {}; longest waits {}", shares.join(", "), waits.join(", "));
        }
        self.rows.push(json!({
            "store": self.store, "row": row.name, "p50_ms": p50, "over_floor": over_floor,
            "p99_ms": p99, "max_ms": max, "release_p50_ms": figures.release, "in_use": in_use, "longest_wait_ms": longest_wait,
            "over_ideal": over_ideal, "shares": figures.shares, "commands": commands,
            "longest_waits_ms": figures.longest_waits, "hand_overs": figures.hand_overs,
            "failures": figures.failures,
        }));
        if let Some(target) = &row.target {
            self.check_row(row, target, figures, commands, floor);
        }
    }

    /// A line for processes that differ.
    pub(crate) fn beside(&mut self, name: &str, figures: &Figures, commands: f64) {
        let Figures { in_use, shares, longest_waits, turns, failed, .. } = figures;
        let percent = |part: &f64| format!("{:.0} %", part * 100.0);
        let seconds = |ms: &f64| format!("{:.2} s", ms / 1000.0);
        let in_vain = |(turns, failed): (&usize, &u64)| {
            format!("{:.1} %", 100.0 * *failed as f64 / (*turns as f64 + *failed as f64).max(1.0))
        };
        let shares = shares.iter().map(percent).collect::<Vec<_>>().join(", ");
        let waits = longest_waits.iter().map(seconds).collect::<Vec<_>>().join(", ");
        let in_vain = turns.iter().zip(failed).map(in_vain).collect::<Vec<_>>().join(", ");
        println!(
            "{name:<26} shares {shares}; longest waits {waits}; in vain {in_vain}; in use {in_use:.2}, \
             {commands:.2} commands"
        );
        self.rows.push(json!({
            "store": self.store, "row": name, "in_use": in_use, "shares": figures.shares,
            "longest_waits_ms": longest_waits, "turns": turns, "failed": failed,
            "commands": commands, "failures": figures.failures,
        }));
    }

    fn check_row(
        &mut self,
        row: &Row,
        target: &Target,
        figures: &Figures,
        commands: f64,
        floor: Option<f64>,
    ) {
        let name = row.name;
        let over_floor = floor.map_or(f64::NAN, |floor| figures.p50 / floor);
        self.at_most(name, "hand-over p50 over the floor", over_floor, target.over_floor);
        // A lock that hands over as fast as the floor is in use for this part of the time.
        let work = row.work.least.as_secs_f64() * 1000.0;
        let possible = floor.map_or(1.0, |floor| work / (work + floor));
        self.at_least(name, "in use, of the possible", figures.in_use / possible, target.in_use);
        let over_ideal = figures.over_ideal;
        self.at_most(name, "longest wait over the ideal", over_ideal, target.over_ideal);
        self.at_most(name, "commands a hand-over", commands, target.commands);
        let failed = figures.failures.values().sum::<u64>();
        self.at_most(name, "failures", failed as f64, Some(0.0));
        if figures.shares.len() == 4 {
            let (part, tolerance) = SHARE_OF_FOUR;
            let most = figures.shares.iter().copied().fold(0.0, f64::max);
            let least = figures.shares.iter().copied().fold(1.0, f64::min);
            self.at_most(name, "largest share of a process", most, Some(part + tolerance));
            self.at_least(name, "smallest share of a process", least, Some(part - tolerance));
        }
    }

    /// A line of another kind.
    pub(crate) fn note(&mut self, name: &str, text: &str) {
        println!("{name:<26} {text}");
        self.rows.push(json!({ "store": self.store, "row": name, "text": text }));
    }

    /// A target that is met by this much or less.
    pub(crate) fn at_most(&mut self, row: &str, what: &str, is: f64, target: Option<f64>) {
        let Some(target) = target else { return };
        self.targets.at_most(&format!("{}, {row}, {what}", self.store), is, target);
    }

    /// A target that is met by this much or more.
    pub(crate) fn at_least(&mut self, row: &str, what: &str, is: f64, target: Option<f64>) {
        let Some(target) = target else { return };
        self.targets.at_least(&format!("{}, {row}, {what}", self.store), is, target);
    }

    /// Writes the file and prints the sum.
    ///
    /// # Errors
    ///
    /// If `check` is set and a target was missed.
    pub(crate) fn end(self, check: bool) -> Result<()> {
        self.targets.end("waiting", json!({ "rows": self.rows }), check)
    }
}
