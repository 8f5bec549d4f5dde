//! Recorded work on a few keys during a fault.

#![allow(clippy::print_stdout, reason = "figures for a human eye")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_history::{
    Clock, Entry, Fault, Invariant, Limits, Random, Recorder, Recording, Violation, check,
};
use syncguard_redis::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, ReleaseRequest,
};
use syncguard_redis::{LockBackend, LockError, RedisBackend};
use tokio::task::JoinHandle;

const WORKERS: u64 = 8;
/// Longer than an operation takes on a busy machine, whatever its timeout.
const SLOWEST: Duration = Duration::from_secs(30);

pub(crate) struct Load {
    backends: Vec<RedisBackend>,
    keys: Vec<String>,
    recorder: Recorder,
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    grants: AtomicUsize,
    errors: Mutex<BTreeMap<String, usize>>,
    slowest: Mutex<Duration>,
}

impl Load {
    /// Several programs that work.
    pub(crate) fn start(backends: &[RedisBackend], keys: &[String]) -> Self {
        let mut load = Self {
            backends: backends.to_vec(),
            keys: keys.to_vec(),
            recorder: Recorder::in_memory(Clock::Machine),
            stop: Arc::default(),
            seen: Arc::default(),
            tasks: Vec::new(),
        };
        let seed = Random::seed();
        println!("SYNCGUARD_SEED={seed}");
        for (number, backend) in (0..WORKERS).zip(backends.iter().cycle()) {
            let recorder = load.recorder.named(&format!("worker-{number}"));
            let worker = Worker {
                backend: Recording::new(backend.clone(), recorder),
                keys: keys.to_vec(),
                random: Random::new(seed + number),
                stop: Arc::clone(&load.stop),
                seen: Arc::clone(&load.seen),
            };
            load.tasks.push(tokio::spawn(worker.run()));
        }
        load
    }

    fn grants(&self) -> usize {
        self.seen.grants.load(Ordering::Relaxed)
    }

    /// Waits for this many more grants.
    pub(crate) async fn more(&self, grants: usize) {
        let (count, started) = (self.grants(), Instant::now());
        while self.grants() < count + grants {
            assert!(started.elapsed() < Duration::from_secs(60), "no grants");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(crate) fn note(&self, fault: Fault) {
        self.recorder.note(Entry::Fault(fault));
    }

    /// Waits until each backend has an answer for all keys again.
    pub(crate) async fn recovered(&self) -> Result<()> {
        let started = Instant::now();
        for backend in &self.backends {
            for key in &self.keys {
                while let Err(error) = backend.is_locked(IsLockedRequest::new(&**key)?).await {
                    ensure!(started.elapsed() < Duration::from_secs(60), "no answer: {error:?}");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        println!("all keys are answered for again after {:?}", started.elapsed());
        self.recorder.note(Entry::Healed);
        Ok(())
    }

    /// Ends the work, and returns the violations and the number of failed operations.
    pub(crate) async fn stop(mut self) -> Result<(Vec<Violation>, usize)> {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks.drain(..) {
            task.await?;
        }
        let (grants, errors) = (self.grants(), self.seen.errors.lock().unwrap().clone());
        let slowest = *self.seen.slowest.lock().unwrap();
        println!("{grants} grants, errors {errors:?}, the slowest operation took {slowest:?}");
        ensure!(slowest < SLOWEST, "an operation took {slowest:?}");
        let wrong = ["Internal", "InvalidArgument", "AuthFailed"];
        ensure!(!errors.keys().any(|code| wrong.contains(&code.as_str())), "{errors:?}");
        let limits = Limits { outage: Duration::from_secs(30), ..Limits::new() };
        let mut violations = check(&self.recorder.history(), &limits);
        // These invariants concern the end of a run and a store's own outage.
        violations
            .retain(|it| !matches!(it.invariant, Invariant::BackInTime | Invariant::NothingLeft));
        Ok((violations, errors.values().sum()))
    }

    /// Ends work that must have broken no rule, and returns the number of failed operations.
    pub(crate) async fn unbroken(self) -> Result<usize> {
        let (violations, errors) = self.stop().await?;
        ensure!(violations.is_empty(), "{}", violations[0]);
        Ok(errors)
    }
}

struct Worker {
    backend: Recording<RedisBackend>,
    keys: Vec<String>,
    random: Random,
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
}

impl Worker {
    const TTL: Duration = Duration::from_secs(1);

    async fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            if let Err(error) = self.turn().await {
                *self.seen.errors.lock().unwrap().entry(error.code().to_string()).or_default() += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tokio::time::sleep(self.random.millis(0, 4)).await;
        }
    }

    async fn turn(&mut self) -> Result<(), LockError> {
        let key = self.random.choose(&self.keys);
        let request = AcquireRequest::new(&**key, Self::TTL)?;
        let (key, lock_id) = (request.key.clone(), request.lock_id);
        let backend = self.backend.clone();
        let AcquireResult::Acquired(_) = self.timed(backend.acquire(request)).await? else {
            return Ok(());
        };
        self.seen.grants.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.random.millis(0, 10)).await;
        // Some calls do not know the key, as after a restart.
        let hint = Some(key).filter(|_| self.random.percent(90));
        if self.random.percent(30) {
            let mut extend = ExtendRequest::new(lock_id, Self::TTL)?;
            extend.key_hint = hint.clone();
            let _ = self.timed(backend.extend(extend)).await?;
        }
        let mut release = ReleaseRequest::new(lock_id);
        release.key_hint = hint;
        let _ = self.timed(backend.release(release)).await?;
        Ok(())
    }

    async fn timed<T>(&self, operation: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let result = operation.await;
        let mut slowest = self.seen.slowest.lock().unwrap();
        *slowest = slowest.max(started.elapsed());
        result
    }
}
