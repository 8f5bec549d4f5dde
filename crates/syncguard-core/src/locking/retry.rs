//! When to try again, and what the tries have shown.

use std::time::Duration;

use crate::authoring::pause::{jittered, random_part};
use crate::rt::Instant;
use crate::{AcquisitionOptions, Backoff, Contention, Jitter};

/// What the store has said so far: contention and a store that hangs are different things.
#[derive(Default)]
pub(super) struct Answers {
    /// How often the store was asked.
    pub(super) attempts: u32,
    /// The longest that an answer took.
    pub(super) longest: Duration,
    /// Whether the lock was held by someone else, as far as was heard last.
    pub(super) last_is_contention: bool,
    /// Whether the last attempt was never answered.
    pub(super) is_open: bool,
    /// Whether a lock was granted, and over when the answer came.
    pub(super) was_late: bool,
    /// When the lock is free unless its holder extends it, as the store said last.
    free_at: Option<Instant>,
}

impl Answers {
    /// An attempt may be this much older when the time limit cuts it off, and still be one that would
    /// have been answered.
    const USUAL: Duration = Duration::from_millis(100);

    pub(super) fn locked(&mut self, took: Duration) {
        self.longest = self.longest.max(took);
        self.last_is_contention = true;
    }

    /// The store has answered that another holder has the lock.
    pub(super) fn holder_has(&mut self, contention: Contention, now: Instant) {
        self.free_at = contention.free_within.map(|time| now + time);
    }

    /// How long it takes until the lock is free unless its holder extends it, in whole milliseconds.
    pub(super) fn left_to_holder(&self, now: Instant) -> Option<Duration> {
        let left = self.free_at?.saturating_duration_since(now).as_millis();
        Some(Duration::from_millis(u64::try_from(left).ok()?)).filter(|left| !left.is_zero())
    }

    /// The time limit came after this time, and no answer.
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

    /// The last pause ended by itself: it was no try.
    pub(super) fn was_not_taken(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    /// The next pause if `left` remains of the time limit; `None` when it is time to give up.
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

    /// The first pause once more, which is no try.
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
