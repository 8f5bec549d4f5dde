//! The memory backend is for one process, so its fleet is tasks: on a paused clock, with the same work, the same
//! record and the same invariants. Each planted flaw must be found.

use std::time::{Duration, Instant};

use syncguard::contract::{IsLockedRequest, TIME_TOLERANCE};
use syncguard::{CancellationToken, DynBackend, LockBackend as _};
use syncguard_history::Random;
use syncguard_history::Recording;
use syncguard_history::{Clock, Entry, Fault, Floors, History, Invariant, Limits, Recorder, check};
use syncguard_tests::fleet::{Plan, key, longest_ttl, work};
use syncguard_tests::register::{Memory, Registers};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

use crate::fleet::shaky::{BOUND, Flaw, LATEST, Shaky};

const MEMBERS: u32 = 8;
const KEYS: u64 = 4;
const TTL: Duration = Duration::from_millis(600);

/// An acquire is carried out within its bound, and its clean-up must be as fast.
fn limits() -> Limits {
    Limits { in_flight: BOUND + Duration::from_millis(200), ..Limits::new() }
}

#[test]
fn a_fleet_of_tasks_breaks_no_invariant() {
    let (seed, started) = (Random::seed(), Instant::now());
    println!("SYNCGUARD_SEED={seed}");
    let history = run(seed, None, true, 120);
    let counts = history.counts();
    println!("memory, {:.1?}: {counts}", started.elapsed());
    let violations = check(&history, &limits());
    assert!(violations.is_empty(), "seed {seed}: {}", violations[0]);
    let faults =
        [(Fault::Killed, 50), (Fault::Cut, 50), (Fault::Severed, 50), (Fault::Late, 50)].to_vec();
    let floors = Floors { answered: 8000, granted: 600, written: 500, rejected: 10, faults };
    assert_eq!(floors.missing(&counts), [""; 0], "seed {seed}");
}

#[test]
fn every_flaw_is_found_by_the_invariant_it_breaks() {
    let seed = Random::seed();
    println!("SYNCGUARD_SEED={seed}");
    for (flaw, invariant) in [
        (Flaw::SecondHolder, Invariant::HoldersTakeTurns),
        (Flaw::NoTolerance, Invariant::LocksTakeTurns),
        (Flaw::RepeatedFence, Invariant::FencesGrow),
        (Flaw::EndlessRelease, Invariant::ReleasedOnce),
        (Flaw::Undead, Invariant::OverForGood),
        (Flaw::Orphans, Invariant::BackInTime),
        (Flaw::LongLife, Invariant::BackInTime),
        (Flaw::SlowRecovery, Invariant::BackInTime),
        (Flaw::LeakedTasks, Invariant::NothingLeft),
    ] {
        finds(invariant, &format!("{flaw:?}"), seed, |seed| run(seed, Some(flaw), true, 20));
    }
    // The flaw that is not in the backend.
    let what = "a register without fences";
    finds(Invariant::NoLostUpdate, what, seed, |seed| run(seed, None, false, 20));
}

#[test]
fn what_is_wrong_with_late_requests_is_found_by_the_invariant_it_breaks() {
    let seed = Random::seed();
    println!("SYNCGUARD_SEED={seed}");
    for (flaw, invariant) in [
        // A lock without an owner.
        (Flaw::LateRequests, Invariant::BackInTime),
        // An expiry that its holder takes for outdated.
        (Flaw::BlindExtends, Invariant::HoldersTakeTurns),
        (Flaw::BlindExtends, Invariant::LocksTakeTurns),
    ] {
        finds(invariant, &format!("{flaw:?}"), seed, |seed| run(seed, Some(flaw), true, 60));
    }
}

/// One run may miss the moment that a flaw needs; this many never do.
const RUNS: usize = 20;

fn finds(invariant: Invariant, what: &str, seed: u64, run: impl Fn(u64) -> History) {
    let started = Instant::now();
    for seed in (seed..).take(RUNS) {
        let violations = check(&run(seed), &limits());
        if let Some(found) = violations.iter().find(|it| it.invariant == invariant) {
            let (found, count) = (found.to_string(), violations.len());
            let first = found.lines().next().unwrap_or("");
            println!("{what}, seed {seed}, {:.1?}: {count} violations; {first}", started.elapsed());
            return;
        }
    }
    panic!("{what}: {invariant:?} was not found in {RUNS} runs from seed {seed} on");
}

/// A run of this many seconds, which take no real time.
fn run(seed: u64, flaw: Option<Flaw>, fenced: bool, seconds: u64) -> History {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let recorder = Recorder::in_memory(Clock::tokio());
        let mut random = Random::new(seed);
        let shaky = Shaky::new(flaw, recorder.clone(), Random::new(random.number()));
        let registers = Registers::in_memory(Memory::new(fenced), recorder.clone());
        let mut fleet = Fleet {
            shaky: shaky.clone(),
            registers: registers.clone(),
            recorder: recorder.clone(),
            random,
            stop: CancellationToken::new(),
            started: 0,
        };
        let mut members: Vec<_> = (0..MEMBERS).map(|_| fleet.start()).collect();
        let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
        while tokio::time::Instant::now() < end {
            fleet.strike(&mut members).await;
        }
        fleet.stop.cancel();
        for member in members {
            member.await.unwrap();
        }
        settle(&shaky, &registers, &recorder).await;
        recorder.history()
    })
}

struct Fleet {
    shaky: Shaky,
    registers: Registers,
    recorder: Recorder,
    random: Random,
    stop: CancellationToken,
    started: u32,
}

impl Fleet {
    fn start(&mut self) -> JoinHandle<()> {
        let recorder = self.recorder.named(&format!("task-{}", self.started));
        self.started += 1;
        let registers = self.registers.recorded_by(recorder.clone());
        let backend = Recording::new(DynBackend::new(self.shaky.clone()), recorder);
        let plan = Plan { keys: KEYS, ttl: TTL, seed: self.random.number() };
        let stop = self.stop.clone();
        tokio::spawn(async move { work(&backend, &registers, &plan, &stop).await })
    }

    /// Ends a task in the middle of its work, or the service for a while.
    async fn strike(&mut self, members: &mut [JoinHandle<()>]) {
        tokio::time::sleep(self.random.millis(150, 500)).await;
        if self.random.percent(50) {
            let member = usize::try_from(self.random.below(members.len() as u64)).unwrap();
            members[member].abort();
            self.recorder.note(Entry::Fault(Fault::Killed));
            members[member] = self.start();
        } else {
            let lasts = self.random.millis(50, 300);
            self.shaky.take_down(lasts);
            self.recorder.note(Entry::Fault(Fault::Severed));
            tokio::time::sleep(lasts).await;
            self.recorder.note(Entry::Healed);
        }
    }
}

async fn settle(shaky: &Shaky, registers: &Registers, recorder: &Recorder) {
    // Background work ends with its locks, and delayed messages when they arrive.
    let locks = longest_ttl(TTL) + TIME_TOLERANCE;
    tokio::time::sleep(LATEST.max(locks) + Duration::from_secs(4)).await;
    let tasks = Handle::current().metrics().num_alive_tasks() as u64;
    let mut live = 0;
    for number in 0..KEYS {
        registers.note(&key(number)).await.unwrap();
        let request = IsLockedRequest::new(key(number)).unwrap();
        live += u64::from(shaky.store().is_locked(request).await.unwrap());
    }
    recorder.note(Entry::Quiet { live, tasks, borrowed: 0 });
}
