//! Trying for a lock until it is free.

use std::time::Duration;

use crate::guard::Lease;
use crate::observer::Waiting;
use crate::rt::{self, Instant, Spawner, sleep_until};
use crate::{
    AcquireRequest, AcquireResult, AcquisitionOptions, Backoff, ErrorCode, GuardDefaults, Jitter,
    Key, LockBackend, LockConfig, LockError, LockGuard, LockId, cancel,
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
/// - `AcquisitionTimeout` when the time limit or the retries have run out.
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
    let mut waiting = attempt.waiting();
    let result = attempt.until_granted(&mut waiting).await;
    waiting.end(result, |_| true)
}

/// Takes a lock if it is free right now; `None` if someone else holds it.
///
/// One attempt: the retry settings of the configuration are not used.
///
/// # Errors
///
/// `Aborted` if the configuration's token fires, `InvalidArgument` for a bad key or setting, and
/// the store's failures.
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
    let mut waiting = attempt.waiting();
    waiting.attempt();
    let result = attempt.once().await;
    waiting.end(result, Option::is_some)
}

/// Everything that one attempt shares with the next.
struct Attempt<'a, B> {
    backend: &'a B,
    key: Key,
    /// The same for every attempt: none of the earlier ones was granted.
    lock_id: LockId,
    config: LockConfig,
    defaults: &'a GuardDefaults,
    spawner: Spawner,
}

impl<'a, B: LockBackend> Attempt<'a, B> {
    fn new(backend: &'a B, config: LockConfig) -> Result<Self, LockError> {
        let key = config.key.clone()?;
        if let Some(error) = &config.policy.invalid {
            return Err(error.clone());
        }
        cancel::check(config.policy.cancellation.as_ref())?;
        let spawner = Spawner::current();
        if !spawner.is_available() {
            return Err(LockError::invalid_argument(
                "called outside a tokio runtime; locks wait and end on one, with its timers enabled",
            ));
        }
        let (lock_id, defaults) = (LockId::generate()?, backend.guard_defaults());
        Ok(Self { backend, key, lock_id, config, defaults, spawner })
    }

    fn waiting(&self) -> Waiting<'_> {
        Waiting::start(&self.defaults.observer, &self.key, self.lock_id)
    }

    async fn until_granted(&self, waiting: &mut Waiting<'_>) -> Result<LockGuard<B>, LockError> {
        let options = self.config.policy.acquisition;
        let deadline = rt::after(options.timeout);
        let mut pauses = Pauses::new(&options);
        loop {
            waiting.attempt();
            // An attempt that is cut off here cleans up after itself: see `LockBackend::acquire`.
            match rt::until(deadline, self.once()).await {
                Some(Ok(Some(guard))) => return Ok(guard),
                Some(Ok(None)) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(self.timed_out(&pauses)),
            }
            let Some(pause) = pauses.next(deadline.saturating_duration_since(Instant::now()))?
            else {
                return Err(self.timed_out(&pauses));
            };
            self.wait(pause).await?;
        }
    }

    async fn once(&self) -> Result<Option<LockGuard<B>>, LockError> {
        let policy = &self.config.policy;
        let request = AcquireRequest {
            key: self.key.clone(),
            ttl: policy.ttl,
            lock_id: self.lock_id,
            cancellation: policy.cancellation.clone(),
        };
        let sent = Instant::now();
        match self.backend.acquire(request).await? {
            AcquireResult::Locked => Ok(None),
            AcquireResult::Acquired(acquired) => {
                let lease = Lease {
                    backend: self.backend.clone(),
                    key: self.key.clone(),
                    lock_id: acquired.lock_id,
                    ttl: policy.ttl,
                    disposal: self.disposal(),
                    spawner: self.spawner.clone(),
                };
                Ok(Some(LockGuard::new(lease, acquired, sent, policy.auto_extend.as_ref())))
            }
        }
    }

    /// The lock's own settings where it has any, else the backend's.
    fn disposal(&self) -> GuardDefaults {
        let (policy, defaults) = (&self.config.policy, self.defaults);
        GuardDefaults {
            on_release_error: policy
                .on_release_error
                .as_ref()
                .unwrap_or(&defaults.on_release_error)
                .clone(),
            dispose_timeout: policy.dispose_timeout.unwrap_or(defaults.dispose_timeout),
            observer: defaults.observer.clone(),
        }
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

    fn timed_out(&self, pauses: &Pauses<'_>) -> LockError {
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
}

/// The pauses between attempts.
struct Pauses<'a> {
    options: &'a AcquisitionOptions,
    taken: u32,
}

impl<'a> Pauses<'a> {
    fn new(options: &'a AcquisitionOptions) -> Self {
        Self { options, taken: 0 }
    }

    /// The next pause if `left` remains of the time limit; `None` when it is time to give up.
    fn next(&mut self, left: Duration) -> Result<Option<Duration>, LockError> {
        if self.taken == self.options.max_retries || left < Duration::from_millis(1) {
            return Ok(None);
        }
        let base = match self.options.backoff {
            Backoff::Fixed => self.options.retry_delay,
            Backoff::Exponential => self
                .options
                .retry_delay
                .saturating_mul(1_u32.checked_shl(self.taken).unwrap_or(u32::MAX)),
        };
        let pause = match self.options.jitter {
            Jitter::None => base,
            Jitter::Full => random_part(base)?,
            Jitter::Equal => base / 2 + random_part(base / 2)?,
        };
        self.taken += 1;
        Ok(Some(if pause < left { pause } else { left * 3 / 4 }))
    }
}

/// A random duration up to this one.
fn random_part(duration: Duration) -> Result<Duration, LockError> {
    let random = getrandom::u32().map_err(|error| {
        LockError::internal("no random source for a retry pause").with_source(&error)
    })?;
    // Capped so that the product below cannot overflow; no pause comes near it.
    let duration = duration.min(Duration::from_secs(1 << 31));
    let nanos = (duration.as_nanos() * u128::from(random)) >> 32;
    Ok(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}
