//! Letting other processes go first now and then.

use std::time::Duration;

use syncguard_core::authoring::pause::random_part;
use tokio::time::Instant;

/// A process learns of its own releases sooner than all others do. So after it has handed its slots on to itself
/// for a while, it pauses before it takes one again.
#[derive(Default)]
pub(super) struct Fairness {
    /// Since when this process has got slots without losing one to another process.
    since: Option<Instant>,
    /// The longest pause. It grows when other processes get slots.
    pause: Duration,
}

impl Fairness {
    /// How long a process may hand slots on to itself.
    const RUN: Duration = Duration::from_millis(50);
    const SHORTEST: Duration = Duration::from_micros(500);
    const LONGEST: Duration = Duration::from_millis(3);

    pub(super) fn won(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Another process has got a slot.
    pub(super) fn lost(&mut self) {
        self.since = None;
        self.pause = (self.pause * 2).clamp(Self::SHORTEST, Self::LONGEST);
    }

    /// This process has no waiters.
    pub(super) fn rest(&mut self) {
        self.since = None;
    }

    /// How long to pause before the next try.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        match self.since {
            Some(since) if since + Self::RUN <= now => {
                self.since = None;
                let longest = self.pause.max(Self::SHORTEST);
                self.pause /= 2;
                random_part(longest)
            }
            _ => Duration::ZERO,
        }
    }
}
