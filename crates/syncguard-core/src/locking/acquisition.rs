//! How long and how often to try.

use std::time::Duration;

pub use crate::util::pause::Jitter;

use crate::util::{checked_timeout, pause};
use crate::value::LockError;

/// How the pause between two attempts grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backoff {
    /// The pause doubles each time.
    #[default]
    Exponential,
    /// The pause stays the same.
    Fixed,
}

/// How long and how often to try for a lock that another holder has. TypeScript: `AcquisitionOptions`.
///
/// These options apply to contention alone; a failing store is reported at once.
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::AcquisitionOptions;
///
/// let patient = AcquisitionOptions::new().with_timeout(Duration::from_secs(60));
/// let impatient = AcquisitionOptions::new().with_max_retries(0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcquisitionOptions {
    /// How many attempts may follow the first one because a pause is over. An attempt after a signal, or
    /// when a waiter becomes the head of the queue, does not count. Neither does an attempt that the head
    /// makes early because other waiters stand behind it. Default: [`u32::MAX`], which is no limit: the
    /// time limit decides. With 0, the call does not wait at all.
    pub max_retries: u32,
    /// The first pause, at least 1 ms. Default: 100 ms.
    pub retry_delay: Duration,
    /// The limit to which the pauses grow. Default: 500 ms. It does not shorten the first pause. Pauses do
    /// not grow while a client that only polls has the lock, nor on a store without signals while other
    /// waiters of the process stand behind the head.
    ///
    /// Without a signal, a waiter learns up to this much later that the lock is free. That is so on a store
    /// without signals, and after a holder that gives none.
    pub max_retry_delay: Duration,
    /// How the pauses grow. Default: exponentially.
    pub backoff: Backoff,
    /// How much of each pause is random. Default: equal jitter.
    pub jitter: Jitter,
    /// The time limit for the whole wait, from 1 ms to 100 years. Default: 5 s.
    ///
    /// A pause that would overshoot the limit is cut to three quarters of the time that is left, so that
    /// the last attempts come close to the limit.
    pub timeout: Duration,
}

impl AcquisitionOptions {
    /// The defaults. TypeScript: `LOCK_DEFAULTS`.
    pub(crate) const DEFAULT: Self = Self {
        max_retries: u32::MAX,
        retry_delay: Duration::from_millis(100),
        max_retry_delay: Duration::from_millis(500),
        backoff: Backoff::Exponential,
        jitter: Jitter::Equal,
        timeout: Duration::from_secs(5),
    };

    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self::DEFAULT
    }

    crate::setters! {
        /// Sets how many attempts follow the first one.
        const with_max_retries(max_retries: u32);
        /// Sets the first pause.
        const with_retry_delay(retry_delay: Duration);
        /// Sets the limit to which the pauses grow.
        const with_max_retry_delay(max_retry_delay: Duration);
        /// Sets how the pauses grow.
        const with_backoff(backoff: Backoff);
        /// Sets how much of each pause is random.
        const with_jitter(jitter: Jitter);
        /// Sets the limit for all attempts together.
        const with_timeout(timeout: Duration);
    }

    /// For authors of recipes: the pause before this retry, counted from 1.
    #[must_use]
    pub fn pause(&self, retry: u32) -> Duration {
        let Self { retry_delay: first, jitter, .. } = *self;
        let failures = match self.backoff {
            Backoff::Fixed => 1,
            Backoff::Exponential => retry,
        };
        pause::RetryPauses { first, longest: self.longest_pause(), jitter }.pause(failures)
    }

    pub(crate) fn longest_pause(&self) -> Duration {
        self.max_retry_delay.max(self.retry_delay)
    }

    pub(crate) fn check(&self) -> Result<(), LockError> {
        if self.max_retries > 0 && self.retry_delay < Duration::from_millis(1) {
            return Err(LockError::invalid_argument(
                "the retry delay is below 1 ms; 1 ms or more is allowed, or no retries",
            ));
        }
        checked_timeout("acquisition timeout", self.timeout).map(drop)
    }
}

impl Default for AcquisitionOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}
