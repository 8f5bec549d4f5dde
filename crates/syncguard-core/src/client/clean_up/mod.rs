//! The background work of a backend: locks that no caller waits for any more and that are still to be given back.
//!
//! These are the locks of dropped guards, releases that failed, and acquires of unknown outcome. The [backlog](Backlog)
//! tries a few of them at a time, so that a burst leaves the store to callers that wait. During an outage it tries one of
//! them from time to time.
//!
//! Tasks, the workers, take on the backlog. Each runtime in which a lock is given up has workers of its own. A program may
//! have several runtimes: they end, as in tests, or stand still between two calls of `block_on`.

mod backlog;

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use self::backlog::{Backlog, Entry, Step};
pub(crate) use self::backlog::{Job, Outcome, Sending};
use crate::rt::{self, Instant, Mutex, RuntimeId, Spawner};

/// The background work of a backend. Clones share it.
///
/// The clean-up needs a tokio runtime: the runtime in which a lock is given up, or the runtime in which the lock was
/// taken. When that runtime ends, the work goes on in another runtime as soon as there is one.
#[derive(Clone, Default)]
pub(crate) struct CleanUp(Arc<Shared>);

#[derive(Default)]
struct Shared {
    backlog: Mutex<Backlog>,
    /// Wakes a worker for a new job.
    changed: Notify,
    /// How many operations that were sent go on without their callers.
    unfinished: AtomicUsize,
    /// Wakes the tasks that wait until nothing is left to do.
    idle: Notify,
    /// True if jobs wait and no runtime is known for them.
    is_stranded: AtomicBool,
}

impl CleanUp {
    /// The locks that wait, and the operations that go on without their callers.
    pub(crate) fn waiting(&self) -> usize {
        // In this order: an operation that ends adds its lock to the backlog before it is no longer counted.
        let unfinished = self.0.unfinished.load(Ordering::Acquire);
        unfinished + self.0.backlog.lock().undone()
    }

    pub(crate) async fn drained(&self, timeout: Duration) -> usize {
        if rt::is_usable() {
            self.go_on();
            rt::within(timeout, self.idle()).await;
        }
        self.waiting()
    }

    async fn idle(&self) {
        loop {
            let mut told = pin!(self.0.idle.notified());
            told.as_mut().enable();
            if self.waiting() == 0 {
                return;
            }
            told.await;
        }
    }

    fn wake_if_idle(&self) {
        if self.waiting() == 0 {
            self.0.idle.notify_waiters();
        }
    }

    /// Counts an operation that goes on without its caller.
    pub(crate) fn unfinished(&self) -> Unfinished {
        self.0.unfinished.fetch_add(1, Ordering::AcqRel);
        Unfinished(self.clone())
    }

    pub(crate) fn left_to_ttl(&self) -> u64 {
        self.0.backlog.lock().left_to_ttl
    }

    /// Tries a job now, and again until it is done.
    pub(crate) fn push(&self, job: Arc<dyn Job>) {
        self.add(job, None);
    }

    /// Tries a job that has failed once, after the first pause, and again until it is done.
    pub(crate) fn push_again(&self, job: Arc<dyn Job>) {
        self.add(job, Some(rt::after(Backlog::PAUSES.first)));
    }

    fn add(&self, job: Arc<dyn Job>, due: Option<Instant>) {
        let spawner = job.spawner().clone();
        {
            let mut backlog = self.0.backlog.lock();
            if !backlog.has_room() {
                return;
            }
            backlog.add(job, due);
        }
        self.start_worker(&spawner, &[]);
        self.0.changed.notify_one();
    }

    /// Starts a worker, if it is of use, in the first runtime that was not tried yet.
    fn start_worker(&self, spawner: &Spawner, tried: &[RuntimeId]) {
        let untried = spawner.candidates().find(|runtime| !tried.contains(&runtime.id()));
        let Some(runtime) = untried else { return self.log_no_runtime() };
        if !self.0.backlog.lock().count_worker(runtime.id()) {
            return;
        }
        let tried = tried.iter().copied().chain([runtime.id()]).collect();
        let worker = Worker {
            clean_up: self.clone(),
            runtime: runtime.id(),
            tried,
            current: None,
            is_polled: false,
            has_left: false,
        };
        // A runtime that has shut down drops the worker at once, and the drop tries the next runtime.
        runtime.spawn(worker.run());
    }

    /// Goes on in the current runtime with jobs whose runtimes have ended. Without such jobs, this costs a look at a flag.
    pub(crate) fn go_on(&self) {
        if !self.0.is_stranded.load(Ordering::Relaxed)
            || !self.0.is_stranded.swap(false, Ordering::AcqRel)
        {
            return;
        }
        let spawner = self.0.backlog.lock().spawner();
        if let Some(spawner) = spawner {
            self.start_worker(&spawner, &[]);
        }
    }

    fn log_no_runtime(&self) {
        self.0.is_stranded.store(true, Ordering::Release);
        let waiting = {
            let mut backlog = self.0.backlog.lock();
            if !backlog.logs_no_runtime() {
                return;
            }
            backlog.waiting()
        };
        tracing::warn!(
            waiting,
            "no tokio runtime to give locks back in; without one they end by their TTL"
        );
    }
}

/// An operation that goes on without its caller. It has ended when this is dropped.
pub(crate) struct Unfinished(CleanUp);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.0.0.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.wake_if_idle();
        }
    }
}

/// A task that works on the backlog.
struct Worker {
    clean_up: CleanUp,
    runtime: RuntimeId,
    /// The runtimes in which this worker was started before, and the present one.
    tried: Vec<RuntimeId>,
    current: Option<Entry>,
    /// True if a try is being polled right now. If the worker is dropped then, the try has panicked.
    is_polled: bool,
    has_left: bool,
}

impl Worker {
    async fn run(mut self) {
        if !rt::is_usable() {
            return;
        }
        loop {
            match self.next_step() {
                Step::Leave => return,
                Step::Wait(due) => tokio::select! {
                    biased;
                    () = self.clean_up.0.changed.notified() => {}
                    () = rt::sleep_until(due) => {}
                },
                Step::Try(entry) => {
                    let mut attempt = Arc::clone(&entry.job).attempt();
                    self.current = Some(entry);
                    let outcome = poll_fn(|context| {
                        self.is_polled = true;
                        let polled = attempt.as_mut().poll(context);
                        self.is_polled = false;
                        polled
                    })
                    .await;
                    if let Some(entry) = self.current.take() {
                        self.clean_up.0.backlog.lock().on_outcome(entry, outcome);
                    }
                }
            }
        }
    }

    fn next_step(&mut self) -> Step {
        let (step, has_more) = {
            let mut backlog = self.clean_up.0.backlog.lock();
            (backlog.next_step(self.runtime), backlog.waiting() > 0)
        };
        match &step {
            Step::Leave => {
                self.has_left = true;
                self.clean_up.wake_if_idle();
            }
            // Another worker helps with the rest.
            Step::Try(entry) if has_more => self.clean_up.start_worker(entry.job.spawner(), &[]),
            _ => {}
        }
        step
    }
}

/// A worker that is dropped before it has left: its runtime has shut down, or a try panicked.
impl Drop for Worker {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let spawner = {
            let mut backlog = self.clean_up.0.backlog.lock();
            backlog.uncount_worker(self.runtime);
            match self.current.take() {
                Some(_) if self.is_polled => backlog.on_panic(),
                Some(entry) => backlog.on_runtime_end(entry),
                None => {}
            }
            backlog.spawner()
        };
        let Some(spawner) = spawner else { return self.clean_up.wake_if_idle() };
        // After a panic the same runtime can be used.
        let tried: &[_] = if self.is_polled { &[] } else { &self.tried };
        self.clean_up.start_worker(&spawner, tried);
    }
}

impl fmt::Debug for CleanUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CleanUp")
            .field("waiting", &self.waiting())
            .field("left_to_ttl", &self.left_to_ttl())
            .finish()
    }
}
