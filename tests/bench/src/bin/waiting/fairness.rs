//! Processes that differ: farther from the store, of another library, without signals.

use std::time::Duration;

use anyhow::Result;

use crate::figures::Figures;
use crate::job::{Contest, Spread, Store, Way};
use crate::options::Options;
use crate::report::Report;
use crate::row::{fresh_keys, measure};
use crate::stores::Measured;

/// Two groups of processes that want the same keys.
struct Beside {
    name: &'static str,
    /// The bound for the guests: the processes with a disadvantage.
    asked: Asked,
    hosts: Group,
    guests: Group,
    keys: usize,
    work: Spread,
    /// Longer than other rows where waits are seldom.
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

const fn group(way: Way, processes: usize, tasks: usize) -> Group {
    Group { way, processes, tasks, latency: Duration::ZERO, rest: Spread::NONE }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One occasional task of a process with this latency in microseconds, beside a process that is near.
const fn far(name: &'static str, tasks: usize, work: u64, micros: u64) -> Beside {
    let latency = Duration::from_micros(micros);
    Beside {
        name,
        asked: Asked::Soon,
        hosts: group(Way::Ours, 1, tasks),
        guests: Group { latency, rest: Spread::millis(100, 300), ..group(Way::Ours, 1, 1) },
        keys: 1,
        work: Spread::exactly(ms(work)),
        least_time: ms(15_000),
    }
}

/// Two processes beside two, each of five tasks, with work and rest of up to 20 ms, on two keys.
const fn two_beside_two(name: &'static str, guests: Way, asked: Asked) -> Beside {
    let rest = Spread::millis(0, 20);
    Beside {
        name,
        asked,
        hosts: Group { rest, ..group(Way::Ours, 2, 5) },
        guests: Group { rest, ..group(guests, 2, 5) },
        keys: 2,
        work: Spread::millis(0, 20),
        least_time: ms(30_000),
    }
}

const ROWS: [Beside; 9] = [
    far("1 ms away, 1 task", 1, 1, 500),
    far("2 ms away, 2 tasks", 2, 5, 1_000),
    far("5 ms away, 1 task", 1, 5, 2_500),
    far("10 ms away, 2 tasks", 2, 1, 5_000),
    far("50 ms of work", 2, 50, 0),
    far("200 ms of work", 2, 200, 0),
    two_beside_two("2 beside 2 of ours", Way::Ours, Asked::Share { least: 0.42, in_vain: 0.0 }),
    two_beside_two(
        "2 beside 2 of TypeScript",
        Way::TypeScript,
        Asked::Share { least: 0.3, in_vain: 0.02 },
    ),
    Beside {
        name: "16 beside 16 that poll",
        asked: Asked::Share { least: 0.35, in_vain: 0.0 },
        hosts: group(Way::Ours, 1, 16),
        guests: group(Way::Deaf, 1, 16),
        keys: 1,
        work: Spread::exactly(ms(1)),
        least_time: ms(0),
    },
];

/// All rows.
pub(crate) async fn all(report: &mut Report, options: &Options, on: Measured<'_>) -> Result<()> {
    for row in ROWS.iter().filter(|row| options.wants_row(row.name)) {
        row.run(report, options, on).await?;
    }
    Ok(())
}

impl Beside {
    async fn run(&self, report: &mut Report, options: &Options, on: Measured<'_>) -> Result<()> {
        let time = options.time.max(self.least_time);
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
        let processes = |group: Group| (0..group.processes).map(move |_| group);
        let contests = processes(self.hosts).chain(processes(self.guests)).map(contest);
        let (figures, commands) = measure(on, contests.collect()).await?;
        report.beside(self.name, &figures, commands);
        self.check(report, &figures, on.store);
        Ok(())
    }

    fn check(&self, report: &mut Report, figures: &Figures, store: &Store) {
        let guests = self.hosts.processes..;
        let sum = |of: &[usize]| of.iter().sum::<usize>() as f64;
        let turns = sum(&figures.turns[guests.clone()]);
        let failed = figures.failed[guests.clone()].iter().sum::<u64>() as f64;
        let hosts_failed = figures.failed[..guests.start].iter().sum::<u64>() as f64;
        let longest = figures.longest_waits[guests].iter().copied().fold(0.0, f64::max);
        report.at_most(self.name, "waits of the hosts in vain", hosts_failed, Some(0.0));
        let in_vain = failed / (turns + failed).max(1.0);
        match self.asked {
            Asked::Soon => {
                let bound = (ms(1_000) + self.work.most * 5).as_secs_f64() * 1_000.0;
                report.at_most(self.name, "longest wait of the guest in ms", longest, Some(bound));
                report.at_most(self.name, "waits in vain", failed, Some(0.0));
                report.at_least(self.name, "turns of the guest", turns, Some(10.0));
            }
            Asked::Share { least, in_vain: bound } => {
                let share = turns / sum(&figures.turns);
                // Without signals, the processes have no means to share.
                let least = Some(least).filter(|_| !matches!(store, Store::Firestore { .. }));
                report.at_least(self.name, "share of the guests", share, least);
                report.at_most(self.name, "part of the waits in vain", in_vain, Some(bound));
            }
        }
    }
}
