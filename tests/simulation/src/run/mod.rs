//! A run of the simulation.

mod faults;

use std::time::Instant;

use syncguard_core::authoring::{seed_randomness, simulate_sleep};
use syncguard_history::{Checker, Clock, Counts, Entry, History, Random, Recorder, Retained};

use crate::flaw::Flaw;
use crate::member::{Member, Setting};
use crate::network::{LATEST, MILLI, Net, Odds, SECOND};
use crate::plan::{Outcome, Plan, Store};
use crate::server::Server;
use crate::work::{LONGEST, PERMITS, SEMAPHORE};

/// Runs a plan, and checks its history meanwhile. `progress` is called from time to time.
pub fn run(plan: &Plan, progress: impl FnMut(&Counts)) -> Outcome {
    // Every member records by its own clock.
    let recorder = Recorder::checking(Clock::Machine, Checker::new(plan.limits()));
    let mut simulation = Simulation::new(plan, recorder);
    let started = Instant::now();
    simulation.run(progress);
    simulation.outcome(started)
}

/// Returns the history of a run without checks.
#[must_use]
pub fn record(plan: &Plan) -> History {
    let recorder = Recorder::in_memory(Clock::Machine);
    Simulation::new(plan, recorder.clone()).run(|_| {});
    recorder.history()
}

/// Between two of these times, a member runs alone.
const SLICE: u64 = MILLI;

struct Simulation<'a> {
    plan: &'a Plan,
    net: Net,
    recorder: Recorder,
    random: Random,
    members: Vec<State>,
    now: u64,
    next_fault: u64,
    heals: Vec<u64>,
    /// The member to kill in its next turn.
    doomed: Option<usize>,
    retained: usize,
    lasted: u64,
}

enum State {
    Works(Member),
    /// Stopped by SIGSTOP or suspended, until then.
    Stopped(Member, u64),
    /// Killed by SIGKILL until then.
    Killed(u64),
}

impl<'a> Simulation<'a> {
    fn new(plan: &'a Plan, recorder: Recorder) -> Self {
        seed_randomness(Some(plan.seed));
        let mut random = Random::new(plan.seed);
        let server = Server::of(plan.store, plan.seed, plan.flaw);
        let mut odds = Odds { lost: 60, late: 120, doubled: 60 };
        if plan.flaw == Some(Flaw::ForgottenCopy) {
            odds.doubled = 600;
        }
        if matches!(plan.flaw, Some(Flaw::SettledLater | Flaw::SettledTooSoon)) {
            // They show only after an acquire whose answer was lost.
            odds.lost = 1000;
        }
        let is_unchecked =
            matches!(plan.flaw, Some(Flaw::UncheckedRelease | Flaw::UncheckedExtend));
        if is_unchecked || plan.flaw.is_some_and(Flaw::leaves_orphans) {
            // These flaws show only if a message comes late or twice.
            odds = Odds { late: 2500, doubled: 600, ..odds };
        }
        let net =
            Net::new(random.number(), odds, plan.members, server, recorder.clone(), plan.flaw);
        let simulation = Self {
            plan,
            net,
            recorder,
            random,
            members: Vec::new(),
            now: 0,
            next_fault: SECOND / 2,
            heals: Vec::new(),
            doomed: None,
            retained: 0,
            lasted: 0,
        };
        simulation
            .note(Entry::Semaphore { key: SEMAPHORE.to_owned(), permits: u64::from(PERMITS) });
        simulation
    }

    fn note(&self, entry: Entry) {
        self.net.state().note(entry);
    }

    fn setting(&self) -> Setting<'_> {
        Setting {
            net: &self.net,
            recorder: &self.recorder,
            store: self.plan.store,
            workers: self.plan.workers,
            keys: self.plan.keys,
            flaw: self.plan.flaw,
        }
    }

    fn start(&mut self, number: usize, now: u64) -> Member {
        let mut random = Random::new(self.random.number());
        Member::start(&self.setting(), number, now, &mut random)
    }

    fn run(&mut self, mut progress: impl FnMut(&Counts)) {
        for number in 0..self.plan.members {
            let member = self.start(number, self.tick(number));
            self.members.push(State::Works(member));
        }
        let mut round = 0_u64;
        loop {
            self.slice(true);
            round += 1;
            if round.is_multiple_of(1000) {
                let (operations, violated) = self.look(&mut progress);
                let is_over = match self.plan.lasts {
                    Some(lasts) => round >= lasts,
                    None => operations >= self.plan.operations,
                };
                if is_over || violated && self.plan.stops_at_once {
                    break;
                }
            }
        }
        self.lasted = round;
        self.ends();
        seed_randomness(None);
        simulate_sleep(None);
    }

    fn outcome(self, started: Instant) -> Outcome {
        let Self { recorder, now, retained, .. } = &self;
        let (simulated_seconds, retained) = (now / SECOND, *retained);
        let limits = self.plan.limits();
        let verdict = recorder
            .checked(|checker| std::mem::replace(checker, Checker::new(limits)).finish())
            .expect("a checker");
        Outcome {
            counts: verdict.counts,
            violations: verdict.violations,
            violated: verdict.violated,
            longest_outage_ms: verdict.longest_outage_ms,
            simulated_seconds,
            lasted: self.lasted,
            seconds: started.elapsed().as_secs_f64(),
            retained,
        }
    }

    fn look(&mut self, progress: &mut impl FnMut(&Counts)) -> (u64, bool) {
        let looked = self.recorder.checked(|checker| {
            progress(checker.counts());
            let violated = !checker.violations().is_empty();
            (checker.counts().operations(), violated, checker.retained())
        });
        let (operations, violated, retained) =
            looked.unwrap_or((self.now / (2 * MILLI), false, Retained::default()));
        self.retained = self.retained.max(retained.all());
        (operations, violated)
    }

    /// Runs a millisecond of each member, one after the other.
    fn slice(&mut self, strikes: bool) {
        self.now += SLICE;
        if strikes && self.next_fault <= self.now {
            self.strike();
        }
        while self.heals.first().is_some_and(|at| *at <= self.now) {
            self.heals.remove(0);
            self.note(Entry::Healed);
        }
        for number in 0..self.members.len() {
            if self.doomed == Some(number) {
                self.doomed = None;
                self.kill(number);
            }
            if let State::Stopped(_, until) | State::Killed(until) = &self.members[number]
                && *until <= self.now
            {
                self.returns(number, self.now - SLICE + self.tick(number));
            }
            if let State::Works(member) = &mut self.members[number] {
                // The member gets its messages until now, then its own time.
                self.net.state().run(member.now);
                let until = member.now + SLICE;
                member.run(until);
            }
        }
        let before = self.now.saturating_sub(2 * SLICE);
        self.recorder.checked(|checker| checker.advance(before));
    }

    /// The phase of its clock within a millisecond. It differs between members, so that each ticks between the
    /// others' ticks.
    fn tick(&self, number: usize) -> u64 {
        (number as u64 + 1) * SLICE / (self.plan.members as u64 + 1)
    }

    fn returns(&mut self, number: usize, now: u64) {
        self.net.state().run(now);
        match std::mem::replace(&mut self.members[number], State::Killed(u64::MAX)) {
            State::Stopped(mut member, _) => {
                member.wakes(now);
                self.members[number] = State::Works(member);
            }
            _ => {
                let member = self.start(number, now);
                self.members[number] = State::Works(member);
            }
        }
    }

    /// All members finish; then the final state is recorded.
    fn ends(&mut self) {
        for number in 0..self.members.len() {
            if !matches!(self.members[number], State::Works(_)) {
                self.returns(number, self.now + self.tick(number));
            }
        }
        for state in &self.members {
            if let State::Works(member) = state {
                member.stops();
            }
        }
        // The network is well again, and what is on its way still arrives.
        self.net.state().is_well_again();
        // Background work ends with its locks, and delayed messages when they arrive.
        let locks = u64::try_from(LONGEST.as_micros()).unwrap_or(0) + SECOND;
        let end = self.now + LATEST.max(locks) + 15 * SECOND;
        while self.now < end {
            self.slice(false);
        }
        let tasks = self.members.iter().map(|state| match state {
            State::Works(member) | State::Stopped(member, _) => member.tasks(),
            State::Killed(_) => 0,
        });
        let tasks = tasks.sum();
        let in_memory = match &self.members[0] {
            State::Works(member) if self.plan.store == Store::Memory => Some(member.live()),
            _ => None,
        };
        let mut network = self.net.state();
        let live = in_memory.unwrap_or_else(|| network.live());
        network.note_registers();
        network.note(Entry::Quiet { live, tasks, borrowed: 0 });
    }
}
