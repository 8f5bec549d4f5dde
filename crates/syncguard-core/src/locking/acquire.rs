//! Trying for a lock until it is free.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::config::Policy;
use super::contend;
use super::guard::{Keep, Lease};
use super::lines::{Lines, Place, Tenure};
use super::observed::Waiting;
use super::outage::Outage;
use super::retry::{Answers, Pauses};
use super::stand::unless_cancelled;
use crate::authoring::cancel;
use crate::rt::{self, Instant, Spawner, sleep_until};
use crate::{
    AcquireRequest, AcquireResult, AcquisitionOptions, ClientState, Contention, ErrorCode, Key,
    LockBackend, LockConfig, LockError, LockGuard, LockId, TIME_TOLERANCE,
};

/// Takes a lock, waiting for its turn while someone else holds it.
///
/// The callers of one process wait in line: the first one asks the store, and each gets the lock in the
/// order in which they came, with an acquire of its own. Between processes no order is promised; a
/// process lets others go first now and then. Only contention is waited for; a failing store is reported
/// at once, unless [`ride_out`](LockConfig::ride_out) says for how long to ask it again. An acquire with no retries does not wait in line, and neither does [`try_acquire`].
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::{LockBackend, LockConfig, LockError, acquire};
///
/// async fn migrate<B: LockBackend>(backend: &B) -> Result<(), LockError> {
///     let guard = acquire(backend, LockConfig::new("migrations").with_ttl(Duration::from_secs(60))).await?;
///     // … the schema is ours for guard.valid_for() …
///     guard.release().await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// - `AcquisitionTimeout` when the time limit or the retries have run out and the lock was held by
///   someone else.
/// - `NetworkTimeout` when they have run out because the store did not answer, or answered only when
///   the TTL was over. What the store may still grant is given back in the background.
/// - `Aborted` as soon as the configuration's token fires.
/// - `InvalidArgument` for a bad key or setting, before anything is sent.
/// - The store's failures, at once or after the time of [`ride_out`](LockConfig::ride_out).
///
/// # Cancel safety
///
/// Safe: dropping the future leaves no lock behind, and gives its place in line up. A future that is
/// kept but not polled loses its place after a second or more, so that others do not wait for it.
pub fn acquire<B, C>(
    backend: &B,
    config: C,
) -> impl Future<Output = Result<LockGuard<B>, LockError>>
where
    B: LockBackend,
    C: Into<LockConfig>,
{
    // Outside of the future, which would keep room for the argument beside what it is made into.
    let config = config.into();
    async move {
        let attempt = Attempt::new(backend, &config)?;
        let mut waiting = attempt.waiting(LockId::generate()?);
        // In a box, since few waiters see one.
        let mut outage = None;
        loop {
            let result = if attempt.policy().acquisition.max_retries == 0 {
                Box::pin(attempt.without_waiting(&mut waiting)).await
            } else {
                contend::wait(&attempt, &mut waiting).await
            };
            let Some(pause) = attempt.pause_in_outage(&result, waiting.attempts(), &mut outage)
            else {
                return waiting.end(result, |_| true);
            };
            drop(result);
            if let Err(aborted) = Box::pin(attempt.rest(pause)).await {
                return waiting.end(Err(aborted), |_| true);
            }
            // The backend gives back what the store may still grant to the old id.
            waiting.go_on_with(LockId::generate()?);
        }
    }
}

/// Takes a lock if it is free right now, and says so if another holder has it.
///
/// One attempt: the retry settings of the configuration are not used. It does not wait in line and does
/// not overtake: while others of this process wait for the lock, the answer is [`TryAcquired::Held`] without a
/// request to the store.
///
/// ```
/// use syncguard_core::{LockBackend, LockError, try_acquire};
///
/// async fn clean_up_unless_it_runs<B: LockBackend>(backend: &B) -> Result<(), LockError> {
///     let Some(guard) = try_acquire(backend, "cleanup").await?.acquired() else {
///         return Ok(()); // it runs on another machine
///     };
///     // … the lock is ours …
///     guard.release().await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// `Aborted` if the configuration's token fires, `InvalidArgument` for a bad key or setting,
/// `NetworkTimeout` if the lock was granted so late that its TTL is over (it is given back), and the
/// store's failures.
///
/// # Cancel safety
///
/// Safe: dropping the future leaves no lock behind.
pub async fn try_acquire<B, C>(backend: &B, config: C) -> Result<TryAcquired<B>, LockError>
where
    B: LockBackend,
    C: Into<LockConfig>,
{
    let config = config.into();
    let attempt = Attempt::new(backend, &config)?;
    let mut waiting = attempt.waiting(LockId::generate()?);
    let result = attempt.now_or_never(&mut waiting).await.and_then(|tried| match tried {
        Tried::Granted(guard) => Ok(TryAcquired::Acquired(guard)),
        Tried::Locked(contention) => Ok(TryAcquired::Held(contention)),
        Tried::Late => Err(attempt.late()),
    });
    waiting.end(result, TryAcquired::is_acquired)
}

/// The answer of [`try_acquire`].
#[must_use = "an acquired lock is given back as soon as its guard is dropped"]
pub enum TryAcquired<B: LockBackend> {
    /// The lock is ours for as long as the guard lives and is valid.
    Acquired(LockGuard<B>),
    /// Another holder has the lock, or other callers of this process wait for it.
    Held(Contention),
}

impl<B: LockBackend> TryAcquired<B> {
    /// The guard, if the lock was free.
    #[must_use = "an acquired lock is given back as soon as its guard is dropped"]
    pub fn acquired(self) -> Option<LockGuard<B>> {
        match self {
            Self::Acquired(guard) => Some(guard),
            Self::Held(_) => None,
        }
    }

    /// Whether the lock was free, and is ours.
    #[must_use]
    pub const fn is_acquired(&self) -> bool {
        matches!(self, Self::Acquired(_))
    }

    /// Whether another holder has the lock.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Held(_))
    }
}

impl<B: LockBackend> fmt::Debug for TryAcquired<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquired(guard) => f.debug_tuple("Acquired").field(guard).finish(),
            Self::Held(contention) => f.debug_tuple("Held").field(contention).finish(),
        }
    }
}

/// Everything that one attempt shares with the next.
pub(super) struct Attempt<'a, B> {
    backend: &'a B,
    key: &'a Key,
    policy: &'a Policy,
    defaults: &'a ClientState,
    spawner: Spawner,
}

/// What came of an attempt.
pub(super) enum Tried<B: LockBackend> {
    Granted(LockGuard<B>),
    /// Someone else holds the lock.
    Locked(Contention),
    /// The lock was granted, and over when the answer came. It is being given back.
    Late,
}

impl<'a, B: LockBackend> Attempt<'a, B> {
    fn new(backend: &'a B, config: &'a LockConfig) -> Result<Self, LockError> {
        config.check()?;
        let (key, policy) = (config.key()?, &config.policy);
        cancel::check(policy.cancellation.as_ref())?;
        rt::check()?;
        let defaults = backend.client_state();
        Ok(Self { backend, key, policy, defaults, spawner: Spawner::current() })
    }

    pub(super) fn backend(&self) -> &'a B {
        self.backend
    }

    pub(super) fn key(&self) -> &'a Key {
        self.key
    }

    pub(super) fn policy(&self) -> &'a Policy {
        self.policy
    }

    pub(super) fn lines(&self) -> &'a Lines {
        self.defaults.lines()
    }

    fn waiting(&self, lock_id: LockId) -> Waiting<'a> {
        Waiting::start(self.defaults.observer(), self.key, lock_id, self.policy.recipe)
    }

    /// How long to wait before the store is asked again, if this result is a failure that is ridden out.
    fn pause_in_outage(
        &self,
        result: &Result<LockGuard<B>, LockError>,
        attempts: u32,
        outage: &mut Option<Box<Outage>>,
    ) -> Option<Duration> {
        let ride_out = self.policy.ride_out;
        if ride_out.is_zero() || !Outage::has_begun(result.as_ref().err()?) {
            return None;
        }
        outage.get_or_insert_default().pause(attempts, ride_out)
    }

    /// Waits, unless the token fires.
    async fn rest(&self, pause: Duration) -> Result<(), LockError> {
        unless_cancelled(self.policy.cancellation.as_ref(), sleep_until(rt::after(pause))).await
    }

    /// One attempt, unless others of this process are before it.
    async fn now_or_never(&self, waiting: &mut Waiting<'_>) -> Result<Tried<B>, LockError> {
        let now = Instant::now();
        if self.lines().has_waiters(self.key, now) {
            return Ok(Tried::Locked(Contention::unknown()));
        }
        waiting.is_first();
        self.once(waiting.attempt(), now, None).await
    }

    /// One attempt within the time limit.
    async fn without_waiting(&self, waiting: &mut Waiting<'_>) -> Result<LockGuard<B>, LockError> {
        let options = &self.policy.acquisition;
        let mut answers = Answers::default();
        let tried = rt::within(options.timeout, self.now_or_never(waiting));
        match tried.await.transpose()? {
            Some(Tried::Granted(guard)) => return Ok(guard),
            Some(Tried::Locked(contention)) => answers.holder_has(contention, Instant::now()),
            Some(Tried::Late) => answers.was_late = true,
            None => answers.missing(options.timeout),
        }
        answers.attempts = waiting.attempts();
        Err(self.gave_up(&Pauses::new(options), &answers))
    }

    /// One attempt, sent at this time. Granted, it gives up the place in line that it is made from.
    pub(super) async fn once(
        &self,
        lock_id: LockId,
        sent: Instant,
        place: Option<&mut Place>,
    ) -> Result<Tried<B>, LockError> {
        let policy = self.policy;
        let request = AcquireRequest {
            key: self.key.clone(),
            ttl: policy.ttl,
            lock_id,
            cancellation: policy.cancellation.clone(),
        };
        let acquired = match self.backend.acquire(request).await? {
            AcquireResult::Acquired(acquired) => acquired,
            AcquireResult::Locked(contention) => return Ok(Tried::Locked(contention)),
        };
        let ttl = policy.ttl.as_duration();
        let now = Instant::now();
        let cap = policy.auto_extend.as_ref().and_then(|plan| plan.max_hold);
        let is_late = sent + cap.map_or(ttl, |cap| cap.min(ttl)) <= now;
        let tenure = (!is_late).then(|| {
            let until = now + ttl + TIME_TOLERANCE;
            match place {
                Some(place) => place.granted(until, now),
                None => Tenure::begin(self.lines(), self.key, until, now),
            }
        });
        // In a box: a guard is moved more often than its lease is used.
        let mut lease = Box::new(Lease::new(
            self.backend.clone(),
            (self.key.clone(), acquired.lock_id, policy.ttl),
            self.disposal(),
            self.spawner.clone(),
            tenure,
        ));
        if is_late {
            // Nobody can rely on it any more. Dropped, it is released.
            drop(lease);
            return Ok(Tried::Late);
        }
        if let Some(min_hold) = policy.min_hold {
            lease.keep(Keep::new(min_hold, acquired.expires_at));
        }
        let auto_extend = policy.auto_extend.as_ref();
        let guard = LockGuard::new(lease, acquired, sent, auto_extend, policy.recipe);
        Ok(Tried::Granted(guard))
    }

    /// The lock's own settings where it has any, else the backend's.
    fn disposal(&self) -> ClientState {
        let policy = self.policy;
        self.defaults.or(policy.on_release_error.as_ref(), policy.dispose_timeout)
    }

    /// Why no attempt follows any more.
    pub(super) fn gave_up(&self, pauses: &Pauses<'_>, answers: &Answers) -> LockError {
        if answers.is_open && !answers.last_is_contention {
            return self.unanswered(pauses);
        }
        // Also if the last answer was "locked": that can be our own lock, which is being given back.
        if answers.was_late {
            return self.late();
        }
        let AcquisitionOptions { timeout, max_retries, .. } = *pauses.options;
        let attempts = match answers.attempts {
            1 => "1 attempt".to_owned(),
            attempts => format!("{attempts} attempts"),
        };
        // The most that there can be is no limit.
        let retries = match max_retries {
            u32::MAX => String::new(),
            1 => " and 1 retry".to_owned(),
            retries => format!(" and {retries} retries"),
        };
        let free = match answers.left_to_holder(Instant::now()) {
            Some(left) => format!("; without an extend it is free in {left:?}"),
            None => String::new(),
        };
        let message = format!(
            "the lock was still held after {attempts}; the limit is {timeout:?}{retries} (wait_up_to){free}"
        );
        LockError::new(ErrorCode::AcquisitionTimeout, message).with_key(self.key)
    }

    /// Why no attempt was made: others of this process were before it all the time.
    pub(super) fn gave_up_in_line(&self, is_contended: bool) -> LockError {
        let timeout = self.policy.acquisition.timeout;
        let (code, message) = if is_contended {
            let message = format!(
                "the lock was still held, and other waiters of this process were first in line; \
                 the limit is {timeout:?} (wait_up_to)"
            );
            (ErrorCode::AcquisitionTimeout, message)
        } else {
            let message = format!(
                "the store did not answer the first one in line of this process within the acquisition \
                 limit of {timeout:?}; nothing was sent for this lock"
            );
            (ErrorCode::NetworkTimeout, message)
        };
        LockError::new(code, message).with_key(self.key)
    }

    fn unanswered(&self, pauses: &Pauses<'_>) -> LockError {
        LockError::new(
            ErrorCode::NetworkTimeout,
            format!(
                "the store did not answer the last acquire within the acquisition limit of {:?}; \
                 what it may still grant is given back",
                pauses.options.timeout
            ),
        )
        .with_unknown_outcome()
        .with_key(self.key)
    }

    fn late(&self) -> LockError {
        LockError::new(
            ErrorCode::NetworkTimeout,
            format!(
                "the lock was granted, but the answer took longer than the TTL of {:?}; it is given back",
                self.policy.ttl.as_duration()
            ),
        )
        .with_key(self.key)
    }
}
