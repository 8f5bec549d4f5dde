//! Letting other processes go first now and then.

use std::time::Duration;

use syncguard_core::authoring::pause::random_part;
use tokio::time::Instant;

/// A process that hands its slots on to itself hears of it sooner than all others. So after a while of that, it
/// waits for a moment before it takes one again.
#[derive(Default)]
pub(super) struct Pace {
    /// Since when this process has got slots without being refused.
    since: Option<Instant>,
    /// How long it lets others go first at the most: longer where others were noticed.
    moment: Duration,
}

impl Pace {
    const WHILE: Duration = Duration::from_millis(50);
    const SHORTEST: Duration = Duration::from_micros(500);
    const LONGEST: Duration = Duration::from_millis(3);

    pub(super) fn won(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Another process has got a slot.
    pub(super) fn lost(&mut self) {
        self.since = None;
        self.moment = (self.moment * 2).clamp(Self::SHORTEST, Self::LONGEST);
    }

    /// Nobody of this process waits.
    pub(super) fn rests(&mut self) {
        self.since = None;
    }

    /// How long others may go first now.
    pub(super) fn step_back(&mut self, now: Instant) -> Duration {
        match self.since {
            Some(since) if since + Self::WHILE <= now => {
                self.since = None;
                let moment = self.moment.max(Self::SHORTEST);
                self.moment /= 2;
                random_part(moment)
            }
            _ => Duration::ZERO,
        }
    }
}
