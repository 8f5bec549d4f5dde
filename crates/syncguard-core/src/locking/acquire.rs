//! Trying for a lock until it is free.

use std::time::Duration;

use super::guard::Lease;
use super::observed::Waiting;
use super::retry::{Answers, Pauses};
use crate::authoring::cancel;
use crate::rt::{self, Instant, Spawner, sleep_until};
use crate::{
    AcquireRequest, AcquireResult, ClientState, ErrorCode, Key, LockBackend, LockConfig, LockError,
    LockGuard, LockId,
};

/// Takes a lock, waiting for its turn while someone else holds it.
///
/// Retries contention with backoff as the configuration says; nothing else is retried. The order in
/// which contenders get the lock is not specified.
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
/// - The store's failures, at once.
///
/// # Cancel safety
///
/// Safe: dropping the future leaves no lock behind.
pub async fn acquire<B, C>(backend: &B, config: C) -> Result<LockGuard<B>, LockError>
where
    B: LockBackend,
    C: Into<LockConfig>,
{
    let attempt = Attempt::new(backend, config.into())?;
    let lock_id = LockId::generate()?;
    let mut waiting = attempt.waiting(lock_id);
    let result = attempt.until_granted(lock_id, &mut waiting).await;
    waiting.end(result, |_| true)
}

/// Takes a lock if it is free right now; `None` if someone else holds it.
///
/// One attempt: the retry settings of the configuration are not used.
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
pub async fn try_lock<B, C>(backend: &B, config: C) -> Result<Option<LockGuard<B>>, LockError>
where
    B: LockBackend,
    C: Into<LockConfig>,
{
    let attempt = Attempt::new(backend, config.into())?;
    let lock_id = LockId::generate()?;
    let mut waiting = attempt.waiting(lock_id);
    waiting.attempt(lock_id);
    let result = attempt.once(lock_id).await.and_then(|tried| match tried {
        Tried::Granted(guard) => Ok(Some(guard)),
        Tried::Locked => Ok(None),
        Tried::Late => Err(attempt.late()),
    });
    waiting.end(result, Option::is_some)
}

/// Everything that one attempt shares with the next.
struct Attempt<'a, B> {
    backend: &'a B,
    key: Key,
    config: LockConfig,
    defaults: &'a ClientState,
    spawner: Spawner,
}

/// What came of an attempt.
enum Tried<B: LockBackend> {
    Granted(LockGuard<B>),
    /// Someone else holds the lock.
    Locked,
    /// The lock was granted, and over when the answer came. It is being given back.
    Late,
}

impl<'a, B: LockBackend> Attempt<'a, B> {
    fn new(backend: &'a B, config: LockConfig) -> Result<Self, LockError> {
        let key = config.key.clone()?;
        if let Some(error) = &config.policy.invalid {
            return Err(error.clone());
        }
        cancel::check(config.policy.cancellation.as_ref())?;
        rt::check()?;
        let defaults = backend.client_state();
        Ok(Self { backend, key, config, defaults, spawner: Spawner::current() })
    }

    fn waiting(&self, lock_id: LockId) -> Waiting<'_> {
        Waiting::start(&self.defaults.observer, &self.key, lock_id)
    }

    async fn until_granted(
        &self,
        mut lock_id: LockId,
        waiting: &mut Waiting<'_>,
    ) -> Result<LockGuard<B>, LockError> {
        let options = self.config.policy.acquisition;
        let deadline = rt::after(options.timeout);
        let mut pauses = Pauses::new(&options);
        let mut answers = Answers::default();
        loop {
            waiting.attempt(lock_id);
            let sent = Instant::now();
            // An attempt that is cut off here cleans up after itself: see `LockBackend::acquire`.
            let Some(tried) = rt::until(deadline, self.once(lock_id)).await else {
                answers.missing(Instant::now().saturating_duration_since(sent));
                return Err(self.gave_up(&pauses, &answers));
            };
            match tried? {
                Tried::Granted(guard) => return Ok(guard),
                Tried::Locked => answers.locked(Instant::now().saturating_duration_since(sent)),
                Tried::Late => {
                    answers.was_late = true;
                    // The old id is being released.
                    lock_id = LockId::generate()?;
                }
            }
            let Some(pause) = pauses.next(deadline.saturating_duration_since(Instant::now()))
            else {
                return Err(self.gave_up(&pauses, &answers));
            };
            self.wait(pause).await?;
        }
    }

    async fn once(&self, lock_id: LockId) -> Result<Tried<B>, LockError> {
        let policy = &self.config.policy;
        let request = AcquireRequest {
            key: self.key.clone(),
            ttl: policy.ttl,
            lock_id,
            cancellation: policy.cancellation.clone(),
        };
        let sent = Instant::now();
        let AcquireResult::Acquired(acquired) = self.backend.acquire(request).await? else {
            return Ok(Tried::Locked);
        };
        let lease = Lease::new(
            self.backend.clone(),
            (self.key.clone(), acquired.lock_id, policy.ttl),
            self.disposal(),
            self.spawner.clone(),
        );
        let cap = policy.auto_extend.as_ref().and_then(|plan| plan.max_hold);
        let life = cap.map_or(policy.ttl.as_duration(), |cap| cap.min(policy.ttl.as_duration()));
        if sent + life <= Instant::now() {
            // Nobody can rely on it any more. Dropped, it is released.
            drop(lease);
            return Ok(Tried::Late);
        }
        let guard = LockGuard::new(lease, acquired, sent, policy.auto_extend.as_ref());
        Ok(Tried::Granted(guard))
    }

    /// The lock's own settings where it has any, else the backend's.
    fn disposal(&self) -> ClientState {
        let policy = &self.config.policy;
        self.defaults.or(policy.on_release_error.as_ref(), policy.dispose_timeout)
    }

    async fn wait(&self, pause: Duration) -> Result<(), LockError> {
        let wake = sleep_until(rt::after(pause));
        match &self.config.policy.cancellation {
            None => wake.await,
            Some(token) => tokio::select! {
                biased;
                () = token.cancelled() => return Err(LockError::aborted()),
                () = wake => {}
            },
        }
        Ok(())
    }

    /// Why no attempt follows any more.
    fn gave_up(&self, pauses: &Pauses<'_>, answers: &Answers) -> LockError {
        if answers.is_open && !answers.last_is_contention {
            return self.unanswered(pauses);
        }
        // Also if the last answer was "locked": that can be our own lock, which is being given back.
        if answers.was_late {
            return self.late();
        }
        LockError::new(
            ErrorCode::AcquisitionTimeout,
            format!(
                "the lock was still held by someone else after {} attempts; the limits are {} and {:?}",
                u64::from(pauses.taken) + 1,
                u64::from(pauses.options.max_retries) + 1,
                pauses.options.timeout
            ),
        )
        .with_key(&self.key)
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
        .with_key(&self.key)
    }

    fn late(&self) -> LockError {
        LockError::new(
            ErrorCode::NetworkTimeout,
            format!(
                "the lock was granted, but the answer took longer than the TTL of {:?}; it is given back",
                self.config.policy.ttl.as_duration()
            ),
        )
        .with_key(&self.key)
    }
}
