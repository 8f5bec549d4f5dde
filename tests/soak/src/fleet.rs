//! The processes of the fleet: the soak starts, kills, stops, ends and restarts them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard::contract::TIME_TOLERANCE;
use syncguard_history::{Entry, Fault, Random, Recorder};
use syncguard_test_services::process::ServerProcess;

use crate::member::{Member, Role};

pub(crate) struct Fleet {
    plan: Plan,
    recorder: Recorder,
    random: Random,
    places: Vec<Place>,
    started: u32,
    next_fault: Instant,
    next_end: Instant,
    ending: Vec<JoinHandle<Result<()>>>,
}

/// The configuration of all processes, and their treatment.
pub(crate) struct Plan {
    /// The configuration of a process; the name, the seed and the URL of the locks differ.
    pub(crate) member: Member,
    /// The URL of the locks for each place. The processes in the last places use the recipes.
    pub(crate) locks: Vec<String>,
    pub(crate) calm: Duration,
    pub(crate) log: PathBuf,
}

struct Place {
    role: Role,
    locks: String,
    now: Now,
}

enum Now {
    Works(Worker),
    /// Stopped by SIGSTOP until then.
    Stopped(Worker, Instant),
    /// Empty until then.
    Empty(Instant),
}

struct Worker {
    name: String,
    process: ServerProcess,
}

impl Fleet {
    pub(crate) fn start(plan: Plan, recorder: Recorder, random: Random) -> Self {
        let now = Instant::now();
        let first = plan.locks.len().saturating_sub(RECIPES);
        let places = plan.locks.iter().enumerate().map(|(number, locks)| {
            let role = if number >= first { Role::Recipes } else { Role::Counts };
            Place { role, locks: locks.clone(), now: Now::Empty(now) }
        });
        let places = places.collect();
        let (next_fault, next_end) = (now + Duration::from_millis(1500), now + END_EVERY);
        Self {
            plan,
            recorder,
            random,
            places,
            started: 0,
            next_fault,
            next_end,
            ending: Vec::new(),
        }
    }

    /// Manages the processes until `stop`, then lets all of them finish their operations.
    pub(crate) fn live_until(mut self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
            self.tick()?;
        }
        for number in 0..self.places.len() {
            self.resume(number)?;
            self.end(number);
        }
        for ending in self.ending {
            ending.join().ok().context("a thread that panicked")??;
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        let now = Instant::now();
        for number in 0..self.places.len() {
            match &self.places[number].now {
                Now::Empty(until) if *until <= now => {
                    let worker = self.spawn(number)?;
                    self.places[number].now = Now::Works(worker);
                }
                Now::Stopped(_, until) if *until <= now => self.resume(number)?,
                _ => {}
            }
        }
        if self.next_fault <= now {
            let calm = u64::try_from(self.plan.calm.as_millis())?;
            self.next_fault = now + self.random.millis(calm / 2, calm * 3 / 2);
            self.strike()?;
        }
        if self.next_end <= now {
            self.next_end = now + END_EVERY;
            let number = self.random.below(self.places.len() as u64);
            self.end(usize::try_from(number)?);
            while let Some(ended) = self.ending.iter().position(JoinHandle::is_finished) {
                self.ending.swap_remove(ended).join().ok().context("a thread that panicked")??;
            }
        }
        Ok(())
    }

    fn spawn(&mut self, number: usize) -> Result<Worker> {
        let name = format!("member-{}", self.started);
        self.started += 1;
        let Place { role, locks, .. } = &self.places[number];
        let member = Member {
            name: name.clone(),
            role: *role,
            locks: locks.clone(),
            seed: self.random.number(),
            ..self.plan.member.clone()
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("member").arg(serde_json::to_string(&member)?);
        Ok(Worker { name, process: ServerProcess::spawn("member", command, &self.plan.log)? })
    }

    fn strike(&mut self) -> Result<()> {
        let works = |number: &usize| matches!(self.places[*number].now, Now::Works(_));
        let working: Vec<usize> = (0..self.places.len()).filter(works).collect();
        // Another process has to remain to take over the locks.
        if working.len() <= self.places.len() / 2 {
            return Ok(());
        }
        let number = *self.random.choose(&working);
        let kill = self.random.percent(60);
        let Some(mut worker) = self.take(number) else { return Ok(()) };
        if kill {
            worker.process.kill()?;
            self.recorder.note(Entry::Fault(Fault::Killed));
            self.recorder.note(Entry::Ended { process: worker.name });
            let until = Instant::now() + self.random.millis(0, 300);
            self.places[number].now = Now::Empty(until);
        } else {
            worker.process.pause()?;
            self.recorder.note(Entry::Fault(Fault::Stopped));
            let ttl = Duration::from_millis(self.plan.member.ttl);
            let until = Instant::now() + ttl + TIME_TOLERANCE + self.random.millis(50, 500);
            self.places[number].now = Now::Stopped(worker, until);
        }
        Ok(())
    }

    fn take(&mut self, number: usize) -> Option<Worker> {
        match std::mem::replace(&mut self.places[number].now, Now::Empty(Instant::now())) {
            Now::Works(worker) => Some(worker),
            other => {
                self.places[number].now = other;
                None
            }
        }
    }

    fn resume(&mut self, number: usize) -> Result<()> {
        let now = &mut self.places[number].now;
        match std::mem::replace(now, Now::Empty(Instant::now())) {
            Now::Stopped(mut worker, _) => {
                worker.process.resume()?;
                *now = Now::Works(worker);
            }
            other => *now = other,
        }
        Ok(())
    }

    /// SIGTERM: a process that ends in order leaves nothing behind. This does not wait for the end.
    fn end(&mut self, number: usize) {
        if let Some(Worker { process, .. }) = self.take(number) {
            self.ending.push(thread::spawn(move || process.end(ENDS_WITHIN)));
        }
    }
}

/// The number of processes that use the recipes. A single process would have no rival.
pub(crate) const RECIPES: usize = 2;
/// How often a process is ended in order.
const END_EVERY: Duration = Duration::from_secs(7);
/// A member finishes its operations, also if the server goes away just then.
const ENDS_WITHIN: Duration = Duration::from_secs(40);
