//! An acquire that nobody waits for any more, and what becomes of its lock.

use std::sync::Arc;
use std::time::Duration;

use super::{Caller, Heir, Settle, Settled, Unsettled};
use crate::contract::clean_up::{Attempt, Job, Outcome, Unfinished};
use crate::contract::{AcquireRequest, AcquireResult, TIME_TOLERANCE};
use crate::rt::{Instant, Mutex, Spawner};
use crate::{Key, LockBackend, LockError, LockId, ReleaseResult, Ttl};

/// How the lock of an acquire is given back.
pub(super) type MakeJob<B> = fn(B, Unsettled) -> Arc<dyn Job>;

/// Inherits an acquire: what it was granted, or may have been, is given back.
pub(super) struct Orphan<B> {
    backend: B,
    key: Key,
    lock_id: LockId,
    ttl: Ttl,
    caller: Caller,
    make_job: MakeJob<B>,
    /// Once its caller has gone.
    unfinished: Option<Unfinished>,
}

impl<B: LockBackend> Orphan<B> {
    pub(super) fn new(
        backend: B,
        request: &AcquireRequest,
        caller: Caller,
        make_job: MakeJob<B>,
    ) -> Self {
        let AcquireRequest { key, lock_id, ttl, .. } = request;
        let (key, lock_id, ttl) = (key.clone(), *lock_id, *ttl);
        Self { backend, key, lock_id, ttl, caller, make_job, unfinished: None }
    }

    pub(super) fn clean_up(self) {
        // Counted until its lock waits to be given back.
        let Self { backend, key, lock_id, ttl, caller, make_job, unfinished: _unfinished } = self;
        let (now, sent) = (Instant::now(), caller.sent());
        let deadline = sent.map(|sent| sent.deadline);
        let given_up = sent.map_or(now, |sent| sent.given_up.max(now));
        let is_sent_once = sent.is_none_or(|sent| sent.times == 1);
        let acquire = Unsettled { key, lock_id, ttl, deadline, is_sent_once, given_up };
        let job = make_job(backend.clone(), acquire);
        backend.client_state().clean_up().push(job);
    }
}

impl<B: LockBackend> Heir<Result<AcquireResult<B::Fence>, LockError>> for Orphan<B> {
    fn deserted(&mut self) {
        self.unfinished = Some(self.backend.client_state().clean_up().unfinished());
        self.caller.leaves();
    }

    fn inherit(self, output: Option<Result<AcquireResult<B::Fence>, LockError>>) {
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

/// Asks a backend that knows for certain.
pub(super) struct Settling<B> {
    backend: B,
    acquire: Unsettled,
    spawner: Spawner,
}

impl<B: Settle> Settling<B> {
    pub(super) fn job(backend: B, acquire: Unsettled) -> Arc<dyn Job> {
        Arc::new(Self { backend, acquire, spawner: Spawner::current() })
    }
}

impl<B: Settle> Job for Settling<B> {
    fn attempt(self: Arc<Self>) -> Attempt {
        Box::pin(async move {
            match self.backend.settle(&self.acquire).await {
                Ok(Settled::Done) => Outcome::Done,
                // Sooner as well: what comes meanwhile must not stay for all that time.
                Ok(Settled::NotYet(left)) => Outcome::NotYet((left / 2).max(SHORTEST_PAUSE)),
                Err(error) => Outcome::Failed(error),
            }
        })
    }

    fn over(&self) -> Instant {
        // A lock that was granted at the last moment ends then.
        self.acquire.given_up + self.acquire.ttl.as_duration() + TIME_TOLERANCE + CLOCKS
    }

    fn spawner(&self) -> &Spawner {
        &self.spawner
    }
}

/// How wrong our idea of the store's clock may be.
const CLOCKS: Duration = Duration::from_secs(2);
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// Releases again and again, since the request may arrive at any time.
pub(super) struct Released<B> {
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

impl<B: LockBackend> Released<B> {
    /// "Not held" alone confirms nothing, since the acquire may still be on its way; half a minute
    /// after the store's first answer it is not.
    const ON_ITS_WAY: Duration = Duration::from_secs(30);

    /// How long a store that does not answer at all is asked.
    const PATIENCE: Duration = Duration::from_secs(600);

    pub(super) fn job(backend: B, acquire: Unsettled) -> Arc<dyn Job> {
        let spawner = Spawner::current();
        Arc::new(Self { backend, acquire, spawner, answers: Mutex::new(Answers::default()) })
    }

    fn not_held(&self) -> Outcome {
        const LONGEST_PAUSE: Duration = Duration::from_secs(5);
        let mut answers = self.answers.lock();
        let first = *answers.first.get_or_insert_with(Instant::now);
        answers.count += 1;
        if first + Self::ON_ITS_WAY <= Instant::now() {
            return Outcome::Done;
        }
        let pause = Duration::from_millis(50).saturating_mul(1 << answers.count.min(8));
        Outcome::NotYet(pause.min(LONGEST_PAUSE))
    }
}

impl<B: LockBackend> Job for Released<B> {
    fn attempt(self: Arc<Self>) -> Attempt {
        Box::pin(async move {
            match self.backend.release(self.acquire.release()).await {
                Ok(ReleaseResult::Released | ReleaseResult::Kept { .. }) => Outcome::Done,
                Ok(ReleaseResult::NotHeld(_)) => self.not_held(),
                Err(error) => Outcome::Failed(error),
            }
        })
    }

    fn over(&self) -> Instant {
        let known = self.answers.lock().first.map(|first| first + Self::ON_ITS_WAY);
        let from = known.unwrap_or(self.acquire.given_up + Self::PATIENCE);
        from + self.acquire.ttl.as_duration() + TIME_TOLERANCE
    }

    fn spawner(&self) -> &Spawner {
        &self.spawner
    }
}
