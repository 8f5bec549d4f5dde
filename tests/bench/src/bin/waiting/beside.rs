//! Processes that differ: farther from the store, or of another library.

use std::time::Duration;

use anyhow::Result;

use crate::figures::Figures;
use crate::job::{Contest, Spread, Way};
use crate::row::{Measured, fresh_keys, measure};
use crate::tables::{Tables, part_of};

/// Two groups of processes that want the same keys: how many, and what each of them does.
struct Beside {
    name: &'static str,
    /// The bound for the guests: the processes with a disadvantage.
    asked: Asked,
    hosts: (usize, Contest),
    guests: (usize, Contest),
}

/// A bound for the guests.
enum Asked {
    Nothing,
    /// Each wait ends within 1 s and the time of five turns.
    Soon,
    /// At least this part of the turns, and at most this part of their waits in vain.
    Share {
        least: f64,
        in_vain: f64,
    },
}

/// One occasional task of a process with this latency in microseconds, beside a process that is near.
fn far(name: &'static str, tasks: usize, work: u64, micros: u64) -> Beside {
    // Longer than other rows, since waits are seldom.
    let (work, time) = (Spread::millis(work, work), Duration::from_secs(15));
    let host = Contest { waiters: tasks, keys: fresh_keys(1), work, time, ..Contest::default() };
    let (latency, rest) = (Duration::from_micros(micros), Spread::millis(100, 300));
    let guest = Contest { waiters: 1, latency, rest, ..host.clone() };
    Beside { name, asked: Asked::Soon, hosts: (1, host), guests: (1, guest) }
}

fn rows() -> [Beside; 6] {
    let ours = |waiters, keys, work| {
        let (keys, time) = (fresh_keys(keys), Duration::from_secs(30));
        Contest { waiters, keys, work, time, ..Contest::default() }
    };
    let theirs = |ours: &Contest| Contest { way: Way::TypeScript, ..ours.clone() };
    let rest = Spread::millis(0, 20);
    let resting = Contest { rest, ..ours(5, 2, rest) };
    let looping = ours(16, 1, Spread::millis(1, 1));
    [
        far("1 ms away, 1 task", 1, 1, 500),
        far("2 ms away, 2 tasks", 2, 5, 1_000),
        far("5 ms away, 1 task", 1, 5, 2_500),
        far("10 ms away, 2 tasks", 2, 1, 5_000),
        Beside {
            name: "2 beside 2 of TypeScript",
            asked: Asked::Share { least: 0.2, in_vain: 0.05 },
            guests: (2, theirs(&resting)),
            hosts: (2, resting),
        },
        Beside {
            name: "16 beside 16 that poll",
            asked: Asked::Nothing,
            guests: (1, theirs(&looping)),
            hosts: (1, looping),
        },
    ]
}

/// Measures all rows.
pub(crate) async fn all(tables: &mut Tables, on: Measured<'_>) -> Result<()> {
    for row in rows() {
        if tables.wants_row(row.name) {
            row.run(tables, on).await?;
        }
    }
    Ok(())
}

impl Beside {
    async fn run(&self, tables: &mut Tables, on: Measured<'_>) -> Result<()> {
        let mut contests = vec![self.hosts.1.clone(); self.hosts.0];
        contests.extend(vec![self.guests.1.clone(); self.guests.0]);
        for contest in &mut contests {
            contest.time = tables.time(contest.time.as_millis().try_into()?)?;
        }
        let figures = measure(on, contests).await?;
        tables.beside(self.name, &figures);
        self.check(tables, &figures);
        Ok(())
    }

    fn check(&self, tables: &mut Tables, figures: &Figures) {
        let (hosts_failed, failed) = figures.failed.split_at(self.hosts.0);
        let [hosts_failed, failed] = [hosts_failed, failed].map(|of| of.iter().sum::<u64>());
        let turns: usize = figures.turns[self.hosts.0..].iter().sum();
        let waits = &figures.longest_waits[self.hosts.0..];
        match self.asked {
            Asked::Nothing => return,
            Asked::Soon => {
                let longest = waits.iter().copied().fold(0.0, f64::max);
                let bound = 1000.0 + 5000.0 * self.hosts.1.work.most.as_secs_f64();
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
