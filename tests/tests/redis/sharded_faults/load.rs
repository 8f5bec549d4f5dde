//! Recorded work on a cluster during a fault.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_history::Random;
use syncguard_history::Recording;
use syncguard_history::{Clock, Entry, Fault, Invariant, Limits, Recorder, Violation, check};
use syncguard_redis::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, ReleaseRequest,
};
use syncguard_redis::{LockBackend, LockError, RedisBackend, RedisOptions};
use syncguard_test_services::redis::RedisCluster;
use tokio::task::JoinHandle;

const KEYS: u64 = 60;
const WORKERS: u64 = 8;
const TTL: Duration = Duration::from_secs(1);
/// The longest time of an operation, and two seconds for a busy machine.
const BOUND: Duration = Duration::from_secs(2);
const SLOWEST: Duration = Duration::from_secs(4);

pub(crate) struct Load {
    backends: Vec<RedisBackend>,
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
    /// Several working programs.
    pub(crate) async fn start(cluster: &RedisCluster, options: RedisOptions) -> Result<Self> {
        let options = options.with_key_prefix("app").with_command_timeout(BOUND);
        let mut backends = Vec::new();
        for _ in 0..2 {
            backends.push(RedisBackend::connect_with(&cluster.url(), options.clone()).await?);
        }
        let mut load = Self {
            backends,
            recorder: Recorder::in_memory(Clock::Machine),
            stop: Arc::default(),
            seen: Arc::default(),
            tasks: Vec::new(),
        };
        let seed = Random::seed();
        println!("SYNCGUARD_SEED={seed}");
        for number in 0..WORKERS {
            let backend = load.backends[usize::try_from(number % 2)?].clone();
            let backend = Recording::new(backend, load.recorder.named(&format!("worker-{number}")));
            let worker = Worker {
                backend,
                random: Random::new(seed + number),
                stop: Arc::clone(&load.stop),
                seen: Arc::clone(&load.seen),
            };
            load.tasks.push(tokio::spawn(worker.run()));
        }
        Ok(load)
    }

    pub(crate) fn grants(&self) -> usize {
        self.seen.grants.load(Ordering::Relaxed)
    }

    /// Waits for this many more grants.
    pub(crate) async fn more(&self, grants: usize) {
        let (count, started) = (self.grants(), Instant::now());
        while self.grants() < count + grants {
            assert!(started.elapsed() < Duration::from_secs(30), "no grants");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(crate) fn note(&self, fault: Fault) {
        self.recorder.note(Entry::Fault(fault));
    }

    /// The time until each backend has an answer from all shards again.
    pub(crate) async fn recovered(&self) -> Result<Duration> {
        let started = Instant::now();
        for backend in &self.backends {
            for number in 0..KEYS {
                while let Err(error) = backend.is_locked(IsLockedRequest::new(key(number))?).await {
                    ensure!(started.elapsed() < Duration::from_secs(20), "no answer: {error:?}");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        let took = started.elapsed();
        println!("all shards answer again after {took:?}");
        self.recorder.note(Entry::Healed);
        Ok(took)
    }

    /// Ends the work, and returns the violations.
    pub(crate) async fn stop(mut self) -> Result<Vec<Violation>> {
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
        Ok(violations)
    }
}

fn key(number: u64) -> String {
    format!("k{number}")
}

struct Worker {
    backend: Recording<RedisBackend>,
    random: Random,
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
}

impl Worker {
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
        let text = key(self.random.below(KEYS));
        let request = AcquireRequest::new(&*text, TTL)?;
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
            let mut extend = ExtendRequest::new(lock_id, TTL)?;
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
