//! Signals that bring nothing.

use std::time::Duration;

use crate::rt::Instant;
use crate::util::pause::{Jitter, RetryPauses};

/// Signals after which the same lease was still there. A store may send them, and so may any program that is allowed
/// to signal. The head must not ask the store as often as such a program likes.
#[derive(Default)]
pub(super) struct FalseSignals {
    /// When the lease ends by the answer before the first of these signals.
    lease_ends: Option<Instant>,
    in_a_row: u32,
}

impl FalseSignals {
    /// With the longest pause, the head asks about as often as a client that polls.
    const PAUSES: RetryPauses = RetryPauses {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(100),
        jitter: Jitter::None,
    };
    /// Answers differ by this much in what they say of one lease.
    const NOISE: Duration = Duration::from_millis(5);

    /// The store has answered an attempt with the end of a lease; `signalled` says that a signal was the reason to ask.
    pub(super) fn on_locked(&mut self, lease_ends: Option<Instant>, signalled: bool) {
        let is_same = self.lease_ends.zip(lease_ends).is_some_and(|(before, now)| {
            before.max(now).saturating_duration_since(before.min(now)) < Self::NOISE
        });
        if !is_same {
            *self = Self { lease_ends, in_a_row: 0 };
        } else if signalled {
            self.in_a_row = self.in_a_row.saturating_add(1);
        }
    }

    /// How long the head waits after the next signal: twice as long after each that was false.
    pub(super) fn pause(&self) -> Option<Duration> {
        (self.in_a_row > 0).then(|| Self::PAUSES.pause(self.in_a_row))
    }
}
