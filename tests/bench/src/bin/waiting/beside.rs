//! Processes that differ: farther from the store, or of another library.

use std::time::Duration;

use anyhow::Result;

use crate::figures::Figures;
use crate::job::{Contest, Spread, Way};
use crate::row::{Measured, fresh_keys, measure};
use crate::tables::{Tables, part_of};

/// Two groups of processes that want the same keys.
struct Beside {
    name: &'static str,
    /// The bound for the guests: the processes with a disadvantage.
    asked: Asked,
    hosts: Group,
    guests: Group,
    keys: usize,
    work: Spread,
    /// Longer than other rows, since waits are seldom.
    least_time: Duration,
}

#[derive(Clone, Copy)]
struct Group {
    way: Way,
    processes: usize,
    tasks: usize,
    latency: Duration,
    rest: Spread,
}

/// A bound for the guests.
#[derive(Clone, Copy)]
enum Asked {
    /// Each wait ends within 1 s and the time of five turns.
    Soon,
    /// At least this part of the turns, and at most this part of their waits in vain.
    Share { least: f64, in_vain: f64 },
}

const fn group(way: Way, processes: usize, tasks: usize, rest: Spread) -> Group {
    Group { way, processes, tasks, latency: Duration::ZERO, rest }
}

const NO_REST: Spread = Spread::millis(0, 0);
const UP_TO_20_MS: Spread = Spread::millis(0, 20);

/// One occasional task of a process with this latency in microseconds, beside a process that is near.
const fn far(name: &'static str, tasks: usize, work: u64, micros: u64) -> Beside {
    let guest = group(Way::Ours, 1, 1, Spread::millis(100, 300));
    Beside {
        name,
        asked: Asked::Soon,
        hosts: group(Way::Ours, 1, tasks, NO_REST),
        guests: Group { latency: Duration::from_micros(micros), ..guest },
        keys: 1,
        work: Spread::millis(work, work),
        least_time: Duration::from_secs(15),
    }
}

const ROWS: [Beside; 5] = [
    far("1 ms away, 1 task", 1, 1, 500),
    far("2 ms away, 2 tasks", 2, 5, 1_000),
    far("5 ms away, 1 task", 1, 5, 2_500),
    far("10 ms away, 2 tasks", 2, 1, 5_000),
    Beside {
        name: "2 beside 2 of TypeScript",
        asked: Asked::Share { least: 0.2, in_vain: 0.05 },
        hosts: group(Way::Ours, 2, 5, UP_TO_20_MS),
        guests: group(Way::TypeScript, 2, 5, UP_TO_20_MS),
        keys: 2,
        work: UP_TO_20_MS,
        least_time: Duration::from_secs(30),
    },
];

/// Measures all rows.
pub(crate) async fn all(tables: &mut Tables, on: Measured<'_>) -> Result<()> {
    for row in &ROWS {
        if tables.wants_row(row.name) {
            row.run(tables, on).await?;
        }
    }
    Ok(())
}

impl Beside {
    async fn run(&self, tables: &mut Tables, on: Measured<'_>) -> Result<()> {
        let time = tables.time.max(self.least_time);
        let keys = fresh_keys(self.keys);
        let contest = |group: Group| Contest {
            way: group.way,
            waiters: group.tasks,
            latency: group.latency,
            keys: keys.clone(),
            work: self.work,
            rest: group.rest,
            time,
        };
        let mut contests = vec![contest(self.hosts); self.hosts.processes];
        contests.extend(vec![contest(self.guests); self.guests.processes]);
        let figures = measure(on, contests).await?;
        tables.beside(self.name, &figures);
        self.check(tables, &figures);
        Ok(())
    }

    fn check(&self, tables: &mut Tables, figures: &Figures) {
        let (hosts_failed, failed) = figures.failed.split_at(self.hosts.processes);
        let [hosts_failed, failed] = [hosts_failed, failed].map(|of| of.iter().sum::<u64>());
        let turns: usize = figures.turns[self.hosts.processes..].iter().sum();
        let waits = &figures.longest_waits[self.hosts.processes..];
        match self.asked {
            Asked::Soon => {
                let longest = waits.iter().copied().fold(0.0, f64::max);
                let bound = 1000.0 + 5000.0 * self.work.most.as_secs_f64();
                tables.at_most(self.name, "longest wait of the guest in ms", longest, bound);
                tables.at_most(self.name, "waits in vain", failed as f64, 0.0);
                tables.at_least(self.name, "turns of the guest", turns as f64, 10.0);
            }
            Asked::Share { least, in_vain } => {
                let share = turns as f64 / figures.turns.iter().sum::<usize>() as f64;
                tables.at_least(self.name, "share of the guests", share, least);
                let part = part_of(failed, turns);
                tables.at_most(self.name, "part of the waits in vain", part, in_vain);
            }
        }
        tables.at_most(self.name, "waits of the hosts in vain", hosts_failed as f64, 0.0);
    }
}
