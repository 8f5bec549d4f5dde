//! The pauses between attempts, and the answers to the attempts.

use std::time::Duration;

use crate::authoring::pause::{jittered, random_part};
use crate::rt::Instant;
use crate::{AcquisitionOptions, Backoff, Contention, Jitter};

/// The answers of the store so far. They tell contention from a store that hangs.
#[derive(Default)]
pub(super) struct Answers {
    /// The number of attempts.
    pub(super) attempts: u32,
    /// The longest time that an answer took.
    pub(super) longest: Duration,
    /// Whether another holder had the lock, by the last answer.
    pub(super) last_is_contention: bool,
    /// Whether the last attempt got no answer.
    pub(super) is_open: bool,
    /// Whether a lock was granted whose TTL was over when the answer came.
    pub(super) was_late: bool,
    /// When the lock is free unless its holder extends it, by the last answer.
    free_at: Option<Instant>,
}

impl Answers {
    /// An attempt that the time limit cuts off after less than this counts as one that would have been
    /// answered in time.
    const USUAL: Duration = Duration::from_millis(100);

    pub(super) fn locked(&mut self, took: Duration) {
        self.longest = self.longest.max(took);
        self.last_is_contention = true;
    }

    /// The store has answered that another holder has the lock.
    pub(super) fn holder_has(&mut self, contention: Contention, now: Instant) {
        self.free_at = contention.free_within.map(|time| now + time);
    }

    /// The time until the lock is free unless its holder extends it, in whole milliseconds.
    pub(super) fn left_to_holder(&self, now: Instant) -> Option<Duration> {
        let left = self.free_at?.saturating_duration_since(now).as_millis();
        Some(Duration::from_millis(u64::try_from(left).ok()?)).filter(|left| !left.is_zero())
    }

    /// The time limit has cut off an attempt this long after it was sent.
    pub(super) fn missing(&mut self, took: Duration) {
        self.is_open = true;
        self.last_is_contention &= took <= (self.longest * 3).max(Self::USUAL);
    }
}

/// The pauses between attempts.
pub(super) struct Pauses<'a> {
    pub(super) options: &'a AcquisitionOptions,
    pub(super) taken: u32,
}

impl<'a> Pauses<'a> {
    pub(super) fn new(options: &'a AcquisitionOptions) -> Self {
        Self { options, taken: 0 }
    }

    /// The last pause ended early, so it does not count as a retry.
    pub(super) fn was_not_taken(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    /// The next pause if `left` remains of the time limit; `None` if the caller must give up.
    pub(super) fn next(&mut self, left: Duration) -> Option<Duration> {
        if self.taken == self.options.max_retries || left < Duration::from_millis(1) {
            return None;
        }
        let base = match self.options.backoff {
            Backoff::Fixed => self.options.retry_delay,
            Backoff::Exponential => self
                .options
                .retry_delay
                .saturating_mul(1_u32.checked_shl(self.taken).unwrap_or(u32::MAX)),
        };
        let pause = self.with_jitter(base);
        self.taken += 1;
        let pause = pause.min(self.options.longest_pause());
        Some(if pause < left { pause } else { left * 3 / 4 })
    }

    /// A pause as long as the first one, which does not count as a retry.
    pub(super) fn shortest(&self) -> Duration {
        self.with_jitter(self.options.retry_delay)
    }

    fn with_jitter(&self, pause: Duration) -> Duration {
        match self.options.jitter {
            Jitter::None => pause,
            Jitter::Full => random_part(pause),
            Jitter::Equal => jittered(pause),
        }
    }
}
