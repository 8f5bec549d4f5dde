//! How long and how often to try.

use std::time::Duration;

use crate::LockError;
use crate::authoring::checked_timeout;

/// How the pause between two attempts grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backoff {
    /// It doubles each time.
    #[default]
    Exponential,
    /// It stays the same.
    Fixed,
}

/// How much chance goes into each pause, so that contenders do not come back all at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Jitter {
    /// Half of the pause is fixed, half is random.
    #[default]
    Equal,
    /// All of the pause is random.
    Full,
    /// None of it.
    None,
}

/// How long and how often to try for a lock that someone else holds. TypeScript: `AcquisitionOptions`.
///
/// Only contention is retried; a failing store is reported at once.
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
    /// Attempts after the first one that are made because a pause is over. An attempt after a signal, or when the
    /// waiter's turn has come in the queue of the process, does not count, and neither does an attempt that is made
    /// early because other waiters stand behind. Default: [`u32::MAX`], which is no limit: the time limit decides. With
    /// 0, nothing is waited for.
    pub max_retries: u32,
    /// The first pause, at least 1 ms. Default: 100 ms.
    pub retry_delay: Duration,
    /// How far the pauses grow. Default: 500 ms. It does not shorten the first one. Pauses do not grow
    /// while a client that only polls has the lock, nor on a store without signals while other waiters of the process
    /// stand behind.
    ///
    /// It is how late a waiter learns that a lock is free where no signal tells: on a store without signals, and after
    /// a holder that gives none.
    pub max_retry_delay: Duration,
    /// How the pauses grow. Default: exponentially.
    pub backoff: Backoff,
    /// How chance enters. Default: equal jitter.
    pub jitter: Jitter,
    /// The limit for all of the waiting, from 1 ms to 100 years. Default: 5 s.
    ///
    /// A pause that would overshoot it is cut to three quarters of what is left, so that the last
    /// attempts come close to the limit instead of not at all.
    pub timeout: Duration,
}

impl AcquisitionOptions {
    /// The defaults. TypeScript: `LOCK_DEFAULTS`.
    pub const DEFAULT: Self = Self {
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

    /// Sets how many attempts follow the first one.
    #[must_use]
    pub const fn with_max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Sets the first pause.
    #[must_use]
    pub const fn with_retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Sets how far the pauses grow.
    #[must_use]
    pub const fn with_max_retry_delay(mut self, delay: Duration) -> Self {
        self.max_retry_delay = delay;
        self
    }

    /// Sets how the pauses grow.
    #[must_use]
    pub const fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets how chance enters the pauses.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the limit for all attempts together.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// No pause is longer.
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
