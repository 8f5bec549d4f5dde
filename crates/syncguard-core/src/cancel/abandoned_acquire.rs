//! An acquire whose caller has gone, and the clean-up of its lock.

use std::sync::Arc;
use std::time::Duration;

use super::caller::Caller;
use super::finish::OnAbandon;
use super::settle::{Settle, Settled, Unsettled};
use crate::backend::LockBackend;
use crate::client::clean_up::{Job, Outcome, Sending, Unfinished};
use crate::contract::liveness::TIME_TOLERANCE;
use crate::contract::request::AcquireRequest;
use crate::contract::response::AcquireResult;
use crate::contract::response::ReleaseResult;
use crate::rt::{Instant, Mutex, Spawner};
use crate::util::pause::RetryPauses;
use crate::value::{Key, LockError, LockId, Ttl};

/// Makes the job that gives back the lock of an acquire.
pub(super) type MakeJob<B, V> = fn(B, Unsettled<V>) -> Arc<dyn Job>;

/// Gives back the lock that an acquire was granted, or may have been, after its caller has gone.
pub(super) struct AbandonedAcquire<B, V> {
    backend: B,
    key: Key,
    lock_id: LockId,
    ttl: Ttl,
    caller: Caller<V>,
    make_job: MakeJob<B, V>,
    /// Set after the caller has gone.
    unfinished: Option<Unfinished>,
}

impl<B: LockBackend, V: Copy + Ord> AbandonedAcquire<B, V> {
    pub(super) fn new(
        backend: B,
        request: &AcquireRequest,
        caller: Caller<V>,
        make_job: MakeJob<B, V>,
    ) -> Self {
        let AcquireRequest { key, lock_id, ttl, .. } = request;
        let (key, lock_id, ttl) = (key.clone(), *lock_id, *ttl);
        Self { backend, key, lock_id, ttl, caller, make_job, unfinished: None }
    }

    pub(super) fn clean_up(self) {
        // Counted as unfinished until the job is in the clean-up.
        let Self { backend, key, lock_id, ttl, caller, make_job, unfinished: _unfinished } = self;
        let (now, sent) = (Instant::now(), caller.sent());
        let void_after = sent.map(|sent| sent.void_after);
        let given_up = sent.map_or(now, |sent| sent.given_up.max(now));
        let is_sent_once = sent.is_none_or(|sent| sent.times == 1);
        let acquire = Unsettled { key, lock_id, ttl, void_after, is_sent_once, given_up };
        let job = make_job(backend.clone(), acquire);
        backend.client_state().clean_up().push(job);
    }
}

impl<B: LockBackend, V: Copy + Ord + Send + 'static>
    OnAbandon<Result<AcquireResult<B::Fence>, LockError>> for AbandonedAcquire<B, V>
{
    fn abandoned(&mut self) {
        self.unfinished = Some(self.backend.client_state().clean_up().unfinished());
        self.caller.set_gone();
    }

    fn ended(self, output: Option<Result<AcquireResult<B::Fence>, LockError>>) {
        let may_be_held = match &output {
            Some(Ok(result)) => result.is_acquired(),
            Some(Err(error)) => error.is_outcome_unknown(),
            None => true,
        };
        if may_be_held {
            self.clean_up();
        }
    }
}

/// Asks the backend until it is certain that no lock is left.
pub(super) struct SettleJob<B: Settle> {
    backend: B,
    acquire: Unsettled<B::VoidAfter>,
    spawner: Spawner,
}

impl<B: Settle> SettleJob<B> {
    pub(super) fn make(backend: B, acquire: Unsettled<B::VoidAfter>) -> Arc<dyn Job> {
        Arc::new(Self { backend, acquire, spawner: Spawner::current() })
    }
}

impl<B: Settle> Job for SettleJob<B> {
    fn attempt(self: Arc<Self>) -> Sending {
        Box::pin(async move {
            match self.backend.settle(&self.acquire).await {
                Ok(Settled::Done) => Outcome::Done,
                // Half of the time, so that a lock that comes meanwhile does not stay for all of it.
                Ok(Settled::NotYet(left)) => Outcome::NotYet((left / 2).max(PAUSES.first)),
                Err(error) => Outcome::Failed(error),
            }
        })
    }

    fn over(&self) -> Instant {
        // The end of a lock that was granted at the last moment. Two more tolerances are for the error of the store's
        // estimated clock.
        self.acquire.given_up + self.acquire.ttl.as_duration() + TIME_TOLERANCE * 3
    }

    fn spawner(&self) -> &Spawner {
        &self.spawner
    }
}

const PAUSES: RetryPauses = RetryPauses::new(Duration::from_millis(50), Duration::from_secs(5));

/// Releases again and again, because the acquire may arrive at any time.
pub(super) struct ReleaseJob<B> {
    backend: B,
    acquire: Unsettled,
    spawner: Spawner,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    first: Option<Instant>,
    count: u32,
}

impl<B: LockBackend> ReleaseJob<B> {
    /// One answer "not held" proves nothing, because the acquire may still be in flight. Half a minute after
    /// the store's first answer it is not.
    const IN_FLIGHT: Duration = Duration::from_secs(30);

    /// For how long to ask a store that does not answer at all.
    const PATIENCE: Duration = Duration::from_secs(600);

    pub(super) fn make(backend: B, acquire: Unsettled) -> Arc<dyn Job> {
        let spawner = Spawner::current();
        Arc::new(Self { backend, acquire, spawner, answers: Mutex::new(Answers::default()) })
    }

    fn not_held(&self) -> Outcome {
        let mut answers = self.answers.lock();
        let first = *answers.first.get_or_insert_with(Instant::now);
        answers.count += 1;
        if first + Self::IN_FLIGHT <= Instant::now() {
            return Outcome::Done;
        }
        Outcome::NotYet(PAUSES.pause(answers.count))
    }
}

impl<B: LockBackend> Job for ReleaseJob<B> {
    fn attempt(self: Arc<Self>) -> Sending {
        Box::pin(async move {
            match self.backend.release(self.acquire.release()).await {
                Ok(ReleaseResult::Released | ReleaseResult::Kept { .. }) => Outcome::Done,
                Ok(ReleaseResult::NotHeld(_)) => self.not_held(),
                Err(error) => Outcome::Failed(error),
            }
        })
    }

    fn over(&self) -> Instant {
        let known = self.answers.lock().first.map(|first| first + Self::IN_FLIGHT);
        let from = known.unwrap_or(self.acquire.given_up + Self::PATIENCE);
        from + self.acquire.ttl.as_duration() + TIME_TOLERANCE
    }

    fn spawner(&self) -> &Spawner {
        &self.spawner
    }
}
