//! The jobs of a clean-up: which job is next, and when.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::rt::{Instant, RuntimeId, Spawner};
use crate::util::ABANDONED_AFTER;
use crate::util::pause::RetryPauses;
use crate::value::{ErrorCode, LockError};

pub(crate) type Sending = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A job that is tried until it is done.
pub(crate) trait Job: Send + Sync + 'static {
    /// Tries the job once.
    fn attempt(self: Arc<Self>) -> Sending;

    /// When the lock is over anyway.
    fn over(&self) -> Instant;

    /// The runtimes in which the job can be tried.
    fn spawner(&self) -> &Spawner;
}

/// The outcome of a try.
pub(crate) enum Outcome {
    /// Nothing is left to do.
    Done,
    /// The store has answered, and is to be asked again after this time.
    NotYet(Duration),
    /// The store has failed.
    Failed(LockError),
}

/// True if a later try may succeed. Credentials are refused for as long as they are being replaced.
fn may_pass(error: &LockError) -> bool {
    error.is_retryable() || error.is_outcome_unknown() || error.code() == ErrorCode::AuthFailed
}

/// The jobs, and the workers that do them.
#[derive(Default)]
pub(super) struct Backlog {
    /// Jobs to try at once.
    ready: VecDeque<Entry>,
    /// Jobs by the time of their next try; the number tells jobs with the same time apart.
    later: BTreeMap<(Instant, u64), Entry>,
    next: u64,
    /// How many workers each runtime has. They are counted by runtime, because a runtime that is not driven at the moment
    /// must not hold up the others.
    workers: HashMap<RuntimeId, usize>,
    /// How many jobs are being tried now.
    trying: usize,
    outage: Option<Outage>,
    pub(super) left_to_ttl: u64,
    /// True if it was logged that locks are left to their TTL.
    has_logged_loss: bool,
    /// True if it was logged that there is no runtime.
    has_logged_no_runtime: bool,
}

pub(super) struct Entry {
    pub(super) job: Arc<dyn Job>,
    was_tried: bool,
    failures: u32,
}

/// The store has failed.
#[derive(Clone, Copy)]
struct Outage {
    /// The store is left alone until then.
    until: Instant,
    /// In a row.
    failures: u32,
    /// While one job is tried: when to stop waiting for it, because its runtime may not be driven.
    probing: Option<Instant>,
}

/// The next step of a worker.
pub(super) enum Step {
    Try(Entry),
    Wait(Instant),
    Leave,
}

impl Backlog {
    /// How many jobs are tried at a time at the most.
    const WORKERS: usize = 8;

    /// How many locks are remembered at the most.
    const LIMIT: usize = 1 << 18;

    /// Short, so that locks are given back soon after an outage.
    pub(super) const PAUSES: RetryPauses =
        RetryPauses::new(Duration::from_millis(50), Duration::from_secs(1));

    /// How many jobs wait for a try.
    pub(super) fn waiting(&self) -> usize {
        self.ready.len() + self.later.len()
    }

    /// How many jobs are not done.
    pub(super) fn undone(&self) -> usize {
        self.waiting() + self.trying
    }

    /// True if one more job can be added. If not, its lock is counted as left to its TTL.
    pub(super) fn has_room(&mut self) -> bool {
        let has_room = self.undone() < Self::LIMIT;
        if !has_room {
            self.leave_to_ttl("too many locks wait to be given back; the others end by their TTL");
        }
        has_room
    }

    /// Adds a job, to be tried at `due` or at once.
    pub(super) fn add(&mut self, job: Arc<dyn Job>, due: Option<Instant>) {
        let entry = Entry { job, was_tried: false, failures: 0 };
        match due {
            Some(due) => self.insert(due, entry),
            None => self.ready.push_back(entry),
        }
    }

    fn insert(&mut self, due: Instant, entry: Entry) {
        self.next += 1;
        self.later.insert((due, self.next), entry);
    }

    /// The spawner of any job that waits.
    pub(super) fn spawner(&self) -> Option<Spawner> {
        let entry = self.ready.front().or_else(|| self.later.values().next())?;
        Some(entry.job.spawner().clone())
    }

    /// Counts one more worker in a runtime, if it is of use there.
    pub(super) fn count_worker(&mut self, runtime: RuntimeId) -> bool {
        let most = if self.outage.is_some() { 1 } else { Self::WORKERS };
        let all: usize = self.workers.values().sum();
        let here = self.workers.entry(runtime).or_default();
        let wanted = *here == 0 || all < most;
        *here += usize::from(wanted);
        wanted
    }

    /// Counts one worker less in a runtime.
    pub(super) fn uncount_worker(&mut self, runtime: RuntimeId) {
        if let Some(workers) = self.workers.get_mut(&runtime) {
            *workers -= 1;
            if *workers == 0 {
                self.workers.remove(&runtime);
            }
        }
    }

    /// True if it is to be logged that there is no runtime: no worker runs, and it was not logged yet.
    pub(super) fn logs_no_runtime(&mut self) -> bool {
        self.workers.is_empty() && !std::mem::replace(&mut self.has_logged_no_runtime, true)
    }

    fn leave_to_ttl(&mut self, why: &'static str) {
        self.left_to_ttl += 1;
        if !std::mem::replace(&mut self.has_logged_loss, true) {
            tracing::warn!("{why}");
        }
    }

    /// The next step of a worker in this runtime. A worker that leaves is no longer counted.
    pub(super) fn next_step(&mut self, runtime: RuntimeId) -> Step {
        self.has_logged_no_runtime = false;
        let step = self.choose(runtime);
        if matches!(step, Step::Leave) {
            self.uncount_worker(runtime);
        }
        step
    }

    fn choose(&mut self, runtime: RuntimeId) -> Step {
        let now = Instant::now();
        // One worker of a runtime is enough to wait.
        let is_alone = self.workers.get(&runtime).is_none_or(|workers| *workers <= 1);
        loop {
            if self.waiting() == 0 {
                self.has_logged_loss = false;
                return Step::Leave;
            }
            let wake = match self.outage {
                // During an outage one job is tried from time to time, whichever is next.
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
            if entry.was_tried && entry.job.over() <= now {
                continue;
            }
            if let Some(outage) = &mut self.outage {
                outage.probing = Some(now + ABANDONED_AFTER);
            }
            self.trying += 1;
            entry.was_tried = true;
            return Step::Try(entry);
        }
    }

    /// Notes the outcome of a try.
    pub(super) fn on_outcome(&mut self, mut entry: Entry, outcome: Outcome) {
        let now = Instant::now();
        self.trying -= 1;
        match outcome {
            Outcome::Done => self.outage = None,
            Outcome::NotYet(pause) => {
                self.outage = None;
                self.insert(now + pause, entry);
            }
            Outcome::Failed(error) if may_pass(&error) => {
                let failures = self.outage.map_or(1, |outage| outage.failures.saturating_add(1));
                let until = now + Self::PAUSES.pause(failures);
                self.outage = Some(Outage { until, failures, probing: None });
                entry.failures = entry.failures.saturating_add(1);
                // Behind the other jobs: a job that fails for its own reasons must not hold them up.
                self.insert(now + Self::PAUSES.pause(entry.failures), entry);
            }
            Outcome::Failed(error) => {
                self.outage = None;
                tracing::debug!(error_code = error.code().as_str(), "a lock cannot be given back");
                self.leave_to_ttl("the store refuses to give a lock back; it ends by its TTL");
            }
        }
    }

    /// Notes that a try panicked.
    pub(super) fn on_panic(&mut self) {
        self.end_try();
        self.leave_to_ttl("giving a lock back panicked; it ends by its TTL");
    }

    /// Notes that a try ended with its runtime. The job is the next one to try.
    pub(super) fn on_runtime_end(&mut self, entry: Entry) {
        self.end_try();
        self.ready.push_front(entry);
    }

    fn end_try(&mut self) {
        self.trying -= 1;
        if let Some(outage) = &mut self.outage {
            outage.probing = None;
        }
    }
}
