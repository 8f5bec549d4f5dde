//! How far a clock is off another one.

use std::fmt;
use std::time::Duration;

/// How far a clock is ahead of the store's (negative: behind it), in bounds. For people: no lock depends on it where the
/// store tells its time.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockDrift {
    /// The lower bound in milliseconds.
    pub lowest: i64,
    /// The upper bound in milliseconds.
    pub highest: i64,
}

impl ClockDrift {
    pub(crate) const fn between(lowest: i64, highest: i64) -> Self {
        Self { lowest, highest }
    }

    /// Returns the middle of the bounds in milliseconds, which is the best estimate.
    #[must_use]
    pub const fn millis(self) -> i64 {
        i64::midpoint(self.lowest, self.highest)
    }

    /// Returns the smallest possible difference between the clocks, whichever is ahead.
    #[must_use]
    pub const fn at_least(self) -> Duration {
        let smallest = match (self.lowest > 0, self.highest < 0) {
            (true, _) => self.lowest,
            (_, true) => self.highest,
            _ => 0,
        };
        Duration::from_millis(smallest.unsigned_abs())
    }
}

impl fmt::Debug for ClockDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lowest, highest } = self;
        write!(f, "ClockDrift({lowest} ms to {highest} ms)")
    }
}
