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
    /// Attempts after the first one that are made because a pause is over: an attempt after a signal, or
    /// when it is one's turn in the line of the process, does not count, and neither does one that is made
    /// early since others stand behind. Default: [`u32::MAX`], which is no limit: the time limit decides. With
    /// 0, nothing is waited for.
    pub max_retries: u32,
    /// The first pause, at least 1 ms. Default: 100 ms.
    pub retry_delay: Duration,
    /// How far the pauses grow. Default: 500 ms. It does not shorten the first one. On a store without signals
    /// they do not grow while others of the process stand behind.
    ///
    /// It is how late one hears that a lock is free where no signal tells: on a store without signals, and
    /// of a holder that gives none.
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
    /// How long those who wait leave the key free, for others that only look at it from time to time, up to
    /// 1 s. Default: zero, which is never.
    ///
    /// Who hears of a release is faster than whoever looks now and then, such as a process with the TypeScript
    /// library. While processes that hear want a key all the time, the others may hardly ever find it free. With
    /// this, it is left free for a twentieth of the time, by the wall clock: for 100 ms every 2 s, say. If
    /// somebody is found to have come in a gap, those who hear also wait 2 to 3 ms longer after each release, for
    /// 10 times as long as the gap. Those who poll get more turns by it, and those who hear fewer; the longest
    /// waits of those who poll stay: the page on waiting of the guide has figures. Set the same in all processes
    /// that hear.
    ///
    /// A caller that finds nobody before it in its own process takes a free lock at any time, also in a gap.
    /// [`acquire`](crate::acquire()) and [`lock`](crate::lock()) go by it; a semaphore has no gaps.
    pub poll_gap: Duration,
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
        poll_gap: Duration::ZERO,
    };

    const LONGEST_POLL_GAP: Duration = Duration::from_secs(1);

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

    /// Sets how long the key is left, every now and then, to those who only look from time to time.
    #[must_use]
    pub const fn with_poll_gap(mut self, gap: Duration) -> Self {
        self.poll_gap = gap;
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
        if self.poll_gap > Self::LONGEST_POLL_GAP {
            return Err(LockError::invalid_argument(
                "the poll gap is above 1 s; 0 to 1 s is allowed",
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
