//! A member: a runtime of its own, whose clock is moved by hand. If it is stopped, its timers stand still while other
//! members go on; if it is suspended, its monotonic clock too; if it is killed, it never runs again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use syncguard_core::authoring::simulate_sleep;
use syncguard_core::inventory::ListRequest;
use syncguard_core::{CancellationToken, DynBackend, LockBackend as _};
use syncguard_history::{Clock, Random, Recorder, Recording};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::Instant;

use crate::flaw::Flaw;
use crate::flawed_queue::FlawedQueue;
use crate::link::Link;
use crate::network::{EPOCH, Net};
use crate::plan::Store;
use crate::work::{Worker, readers_and_writers};

pub(crate) struct Member {
    runtime: Runtime,
    /// The set that its tasks run in, because closures of users need not be `Send`.
    local: LocalSet,
    workers: Vec<JoinHandle<()>>,
    recorder: Recorder,
    /// The time of the member, in microseconds.
    pub(crate) now: u64,
    started: (Instant, u64),
    /// True while it is stopped, if its monotonic clock stands still then.
    pub(crate) is_suspended: bool,
    /// The microseconds for which that clock has stood still.
    asleep: Arc<AtomicU64>,
    /// False with the flaw that the library counts no such time.
    counts_sleep: bool,
    /// The backend of a store in memory. Others end with the work, and their connections with them.
    memory: Option<DynBackend>,
    stop: CancellationToken,
}

/// The state that all members share.
pub(crate) struct Setting<'a> {
    pub(crate) net: &'a Net,
    pub(crate) recorder: &'a Recorder,
    pub(crate) store: Store,
    pub(crate) workers: usize,
    pub(crate) keys: usize,
    pub(crate) flaw: Option<Flaw>,
}

impl Member {
    /// Starts the work at this time.
    pub(crate) fn start(
        setting: &Setting<'_>,
        number: usize,
        now: u64,
        random: &mut Random,
    ) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let stop = CancellationToken::new();
        let at = runtime.block_on(async { Instant::now() });
        let unix: SystemTime = UNIX_EPOCH + Duration::from_millis(EPOCH);
        let asleep = Arc::<AtomicU64>::default();
        let steady = Duration::from_micros(now);
        let clock = Clock::Tokio { at, steady, unix, asleep: Arc::clone(&asleep) };
        simulate_sleep(Some(Duration::ZERO));
        let recorder = setting.recorder.elsewhere(&format!("member-{number}"), clock);
        let local = LocalSet::new();
        let (workers, memory) = local.block_on(&runtime, async {
            let mut workers = Vec::new();
            let asleep = Arc::clone(&asleep);
            let link = Arc::new(Link::new(setting.net.clone(), number, now, asleep));
            let real = setting.store.backend(&link);
            let queue = FlawedQueue::new(real.clone(), setting.flaw);
            let backend = Recording::new(queue, recorder.clone());
            let mut shared = readers_and_writers(&backend, random);
            for worker in 0..setting.workers {
                // A store in memory has one member, which stands for several.
                if setting.store == Store::Memory && worker % 8 == 0 {
                    shared = readers_and_writers(&backend, random);
                }
                let worker = Worker {
                    shared: shared.clone(),
                    backend: backend.clone(),
                    link: Arc::clone(&link),
                    recorder: recorder.clone(),
                    random: Random::new(random.number()),
                    keys: setting.keys,
                    member: number,
                    flaw: setting.flaw,
                    stop: stop.clone(),
                };
                workers.push(tokio::task::spawn_local(worker.work()));
            }
            if setting.flaw == Some(Flaw::LeakedTask) {
                tokio::spawn(std::future::pending::<()>());
            }
            (workers, Some(real).filter(|_| setting.store == Store::Memory))
        });
        let counts_sleep = setting.flaw != Some(Flaw::AwakeTime);
        let (started, is_suspended) = ((at, now), false);
        Self {
            runtime,
            local,
            workers,
            recorder,
            now,
            started,
            is_suspended,
            asleep,
            counts_sleep,
            memory,
            stop,
        }
    }

    /// Advances its time.
    pub(crate) fn run(&mut self, until: u64) {
        let asleep = self.enters();
        let end = self.started.0 + Duration::from_micros(until - self.started.1 - asleep);
        self.local.block_on(&self.runtime, async { tokio::time::sleep_until(end).await });
        self.now = until;
    }

    /// The member was stopped until now. Its timers notice the delay at once, unless it was suspended.
    pub(crate) fn wakes(&mut self, now: u64) {
        let stood = now - self.now;
        if std::mem::take(&mut self.is_suspended) {
            self.asleep.fetch_add(stood, Ordering::Relaxed);
        } else {
            let _ = self.enters();
            let stood = Duration::from_micros(stood);
            self.local.block_on(&self.runtime, async { tokio::time::advance(stood).await });
        }
        self.now = now;
    }

    /// The library reads its clocks from now on. Returns the microseconds for which it was suspended.
    fn enters(&self) -> u64 {
        let asleep = self.asleep.load(Ordering::Relaxed);
        let counted = if self.counts_sleep { asleep } else { 0 };
        simulate_sleep(Some(Duration::from_micros(counted)));
        asleep
    }

    /// The number of live locks in its memory.
    pub(crate) fn live(&self) -> u64 {
        let listed = self.local.block_on(&self.runtime, async {
            let memory = self.memory.as_ref().expect("a store in memory");
            let inventory = memory.inventory().expect("an inventory");
            inventory.list_locks(ListRequest::new()).await
        });
        listed.expect("a page").entries.len() as u64
    }

    /// Tells the member to finish its work.
    pub(crate) fn stops(&self) {
        self.stop.cancel();
    }

    pub(crate) fn tasks(&self) -> u64 {
        let working = self.workers.iter().filter(|worker| !worker.is_finished()).count();
        (self.runtime.metrics().num_alive_tasks() + working) as u64
    }

    /// SIGKILL: the member writes nothing any more, and never runs again.
    pub(crate) fn killed(self) {
        self.recorder.silence();
        let entered = self.runtime.enter();
        drop(self.local);
        drop(self.memory);
        drop(entered);
        drop(self.runtime);
    }
}
