//! What is left to do when nobody waits for it any more: one queue for each backend.
//!
//! Locks of dropped guards, releases that failed, and acquires whose outcome nobody knows. A handful of
//! them is tried at a time, so that a burst leaves the store to those who wait for it. While the store
//! is away, one of them is tried now and then, and the others wait.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::LockError;
use crate::authoring::pause::jittered;
use crate::rt::{self, Instant, Mutex, RuntimeId, Spawner};

/// The background work of a backend. Clones share it.
///
/// It needs a tokio runtime to work in: the one where a lock is given up, or the one where it was
/// taken. When that runtime ends, the work goes on in another one as soon as there is one.
#[derive(Clone, Default)]
pub struct CleanUp(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Notify,
    /// Operations on the wire that go on without their callers.
    unfinished: AtomicUsize,
    /// Wakes the tasks that wait until nothing is left to do.
    idle: Notify,
}

#[derive(Default)]
struct State {
    /// To be tried as soon as can be.
    ready: VecDeque<Entry>,
    /// By the time of the next try; the number tells those apart that are due together.
    later: BTreeMap<(Instant, u64), Entry>,
    next: u64,
    /// How many in each runtime: one that nobody drives at the moment must not hold up the others.
    lanes: HashMap<RuntimeId, usize>,
    /// How many are being tried now.
    trying: usize,
    outage: Option<Outage>,
    left_to_ttl: u64,
    /// What was said already, and is not said again until it has changed.
    said: Said,
}

#[derive(Clone)]
struct Entry {
    job: Arc<dyn Job>,
    /// Whether it was tried before.
    is_tried: bool,
    failures: u32,
}

/// The store did not do what was asked: until when to leave it alone, and whether it is being asked.
#[derive(Clone, Copy)]
struct Outage {
    until: Instant,
    pause: Duration,
    /// When to stop waiting for a try that is on its way: its runtime may not be driven.
    probing: Option<Instant>,
}

#[derive(Default)]
struct Said {
    full: bool,
    no_runtime: bool,
}

pub(crate) type Attempt = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Something to try until it is done.
pub(crate) trait Job: Send + Sync + 'static {
    /// Tries it once.
    fn attempt(self: Arc<Self>) -> Attempt;

    /// When the lock is over anyway.
    fn over(&self) -> Instant;

    /// Where it can be tried.
    fn spawner(&self) -> &Spawner;
}

/// What came of a try.
pub(crate) enum Outcome {
    /// There is nothing left to do.
    Done,
    /// The store has answered, and is to be asked again after this time.
    NotYet(Duration),
    /// The store has failed.
    Failed(LockError),
}

impl CleanUp {
    /// How many tries are on their way at a time at the most.
    const LANES: usize = 8;

    /// How many locks are remembered at the most.
    const LIMIT: usize = 1 << 18;

    /// How many locks wait to be given back or are being given back now. An operation that was sent and then
    /// dropped or cancelled counts from that moment on, as it may still take a lock.
    #[must_use]
    pub fn waiting(&self) -> usize {
        // In this order: an operation that ends leaves its lock to the queue before it is counted off.
        let unfinished = self.0.unfinished.load(Ordering::Acquire);
        let state = self.0.state.lock();
        unfinished + state.waiting() + state.trying
    }

    /// Waits until every lock is given back, for this long at the most. Answers how many are still
    /// [waiting](Self::waiting): 0 if nothing is left to do.
    ///
    /// A program that ends calls it when its own tasks have ended or were dropped, and before its runtime ends:
    /// what is not given back then ends by its TTL. New locks can be taken meanwhile and afterwards.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing but the waiting ends.
    pub async fn drained(&self, timeout: Duration) -> usize {
        if rt::is_usable() {
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

    fn tell_if_idle(&self) {
        if self.waiting() == 0 {
            self.0.idle.notify_waiters();
        }
    }

    /// Counts an operation that goes on without its caller.
    pub(crate) fn unfinished(&self) -> Unfinished {
        self.0.unfinished.fetch_add(1, Ordering::AcqRel);
        Unfinished(self.clone())
    }

    /// How many locks were left to end by their TTL since the backend was made: there were more than
    /// 262 144 to give back, the store refused for good, or the giving back panicked.
    #[must_use]
    pub fn left_to_ttl(&self) -> u64 {
        self.0.state.lock().left_to_ttl
    }

    /// Tries something now, and again until it is done.
    pub(crate) fn push(&self, job: Arc<dyn Job>) {
        self.add(job, |state, entry| state.ready.push_back(entry));
    }

    /// Tries something after a time, and again until it is done.
    pub(crate) fn push_after(&self, job: Arc<dyn Job>, pause: Duration) {
        self.add(job, |state, entry| state.insert(rt::after(pause), entry));
    }

    fn add(&self, job: Arc<dyn Job>, add: impl FnOnce(&mut State, Entry)) {
        let spawner = job.spawner().clone();
        {
            let mut state = self.0.state.lock();
            if state.waiting() + state.trying >= Self::LIMIT {
                state.leave_to_ttl(
                    "too many locks wait to be given back; the others end by their TTL",
                );
                return;
            }
            add(&mut state, Entry { job, is_tried: false, failures: 0 });
        }
        self.start_lane(&spawner, &[]);
        self.0.changed.notify_one();
    }

    /// Starts a lane, if one is of use, on the first runtime that was not tried yet.
    fn start_lane(&self, spawner: &Spawner, tried: &[RuntimeId]) {
        let untried = spawner.candidates().find(|runtime| !tried.contains(&runtime.id()));
        let Some(runtime) = untried else { return self.say_no_runtime() };
        if !self.0.state.lock().count_lane(runtime.id()) {
            return;
        }
        let tried = tried.iter().copied().chain([runtime.id()]).collect();
        let lane = Lane {
            clean_up: self.clone(),
            runtime: runtime.id(),
            tried,
            current: None,
            is_polled: false,
            has_left: false,
        };
        // A runtime that has shut down drops it here and now, and then the next one is tried.
        runtime.spawn(lane.run());
    }

    fn say_no_runtime(&self) {
        let waiting = {
            let mut state = self.0.state.lock();
            if !state.lanes.is_empty() || std::mem::replace(&mut state.said.no_runtime, true) {
                return;
            }
            state.waiting()
        };
        tracing::warn!(
            waiting,
            "no tokio runtime to give locks back in; without one they end by their TTL"
        );
    }
}

/// An operation that goes on without its caller. Dropped, it has ended.
pub(crate) struct Unfinished(CleanUp);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.0.0.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.tell_if_idle();
        }
    }
}

impl State {
    fn waiting(&self) -> usize {
        self.ready.len() + self.later.len()
    }

    fn insert(&mut self, due: Instant, entry: Entry) {
        self.next += 1;
        self.later.insert((due, self.next), entry);
    }

    /// Any of those that wait.
    fn any(&self) -> Option<&Entry> {
        self.ready.front().or_else(|| self.later.values().next())
    }

    /// Counts one more lane in a runtime if it is of use there.
    fn count_lane(&mut self, runtime: RuntimeId) -> bool {
        let most = if self.outage.is_some() { 1 } else { CleanUp::LANES };
        let all: usize = self.lanes.values().sum();
        let here = self.lanes.entry(runtime).or_default();
        let wanted = *here == 0 || all < most;
        *here += usize::from(wanted);
        wanted
    }

    /// Counts one lane less in a runtime.
    fn uncount_lane(&mut self, runtime: RuntimeId) {
        if let Some(lanes) = self.lanes.get_mut(&runtime) {
            *lanes -= 1;
            if *lanes == 0 {
                self.lanes.remove(&runtime);
            }
        }
    }

    fn leave_to_ttl(&mut self, why: &'static str) {
        self.left_to_ttl += 1;
        if !std::mem::replace(&mut self.said.full, true) {
            tracing::warn!("{why}");
        }
    }

    /// What a lane in this runtime does next.
    fn next_step(&mut self, runtime: RuntimeId) -> Step {
        let step = self.choose(runtime);
        if matches!(step, Step::Leave) {
            self.uncount_lane(runtime);
        }
        step
    }

    fn choose(&mut self, runtime: RuntimeId) -> Step {
        let now = Instant::now();
        // One lane of a runtime is enough to wait.
        let is_alone = self.lanes.get(&runtime).is_none_or(|lanes| *lanes <= 1);
        loop {
            if self.waiting() == 0 {
                self.said.full = false;
                return Step::Leave;
            }
            let wake = match self.outage {
                // While the store is away, one is tried now and then, whichever is next.
                Some(outage) => Some(outage.probing.unwrap_or(outage.until)),
                None if !self.ready.is_empty() => None,
                None => self.later.first_key_value().map(|((due, _), _)| *due),
            };
            if let Some(wake) = wake.filter(|wake| *wake > now) {
                return if is_alone { Step::Wait(wake) } else { Step::Leave };
            }
            let next = self.ready.pop_front();
            let next = next.or_else(|| self.later.pop_first().map(|(_, entry)| entry));
            let Some(mut entry) = next else { return Step::Leave };
            if entry.is_tried && entry.job.over() <= now {
                continue;
            }
            if let Some(outage) = &mut self.outage {
                outage.probing = Some(now + LONGEST_PROBE);
            }
            self.trying += 1;
            entry.is_tried = true;
            return Step::Try(entry);
        }
    }

    fn note(&mut self, mut entry: Entry, outcome: Outcome) {
        let now = Instant::now();
        self.trying -= 1;
        match outcome {
            Outcome::Done => self.outage = None,
            Outcome::NotYet(pause) => {
                self.outage = None;
                self.insert(now + pause, entry);
            }
            Outcome::Failed(error) if error.is_retryable() || error.is_outcome_unknown() => {
                let pause = self.outage.map_or(FIRST_PAUSE, |outage| outage.pause);
                let until = now + jittered(pause);
                self.outage =
                    Some(Outage { until, pause: (pause * 2).min(LONGEST_PAUSE), probing: None });
                entry.failures += 1;
                // Behind the others: one that fails for a reason of its own must not hold them up.
                let own = FIRST_PAUSE.saturating_mul(1 << entry.failures.min(8)).min(LONGEST_PAUSE);
                self.insert(now + jittered(own), entry);
            }
            Outcome::Failed(error) => {
                self.outage = None;
                tracing::debug!(error_code = error.code().as_str(), "a lock cannot be given back");
                self.leave_to_ttl("the store refuses to give a lock back; it ends by its TTL");
            }
        }
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// So that locks are given back soon after the store is there again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PROBE: Duration = Duration::from_secs(10);

enum Step {
    Try(Entry),
    Wait(Instant),
    Leave,
}

/// One of the tasks that work the queue off.
struct Lane {
    clean_up: CleanUp,
    runtime: RuntimeId,
    /// Where this lane was started before, and is now.
    tried: Vec<RuntimeId>,
    current: Option<Entry>,
    /// Whether a try is being polled right now; dropped then, it has panicked.
    is_polled: bool,
    has_left: bool,
}

impl Lane {
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
                        self.clean_up.0.state.lock().note(entry, outcome);
                    }
                }
            }
        }
    }

    fn next_step(&mut self) -> Step {
        let (step, helper) = {
            let mut state = self.clean_up.0.state.lock();
            state.said.no_runtime = false;
            let step = state.next_step(self.runtime);
            let mut helper = None;
            match &step {
                Step::Leave => self.has_left = true,
                Step::Try(entry) if state.waiting() > 0 => {
                    helper = Some(entry.job.spawner().clone());
                }
                _ => {}
            }
            (step, helper)
        };
        if self.has_left {
            self.clean_up.tell_if_idle();
        }
        if let Some(spawner) = helper {
            self.clean_up.start_lane(&spawner, &[]);
        }
        step
    }
}

/// A lane that ends before its work is done: its runtime has shut down, or a try panicked.
impl Drop for Lane {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let spawner = {
            let mut state = self.clean_up.0.state.lock();
            state.uncount_lane(self.runtime);
            if let Some(entry) = self.current.take() {
                state.trying -= 1;
                if let Some(outage) = &mut state.outage {
                    outage.probing = None;
                }
                if self.is_polled {
                    state.leave_to_ttl("giving a lock back panicked; it ends by its TTL");
                } else {
                    state.ready.push_front(entry);
                }
            }
            state.any().map(|entry| entry.job.spawner().clone())
        };
        let Some(spawner) = spawner else { return self.clean_up.tell_if_idle() };
        // After a panic the same runtime will do.
        let tried: &[_] = if self.is_polled { &[] } else { &self.tried };
        self.clean_up.start_lane(&spawner, tried);
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
