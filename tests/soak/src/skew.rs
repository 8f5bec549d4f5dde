//! A wrong clock that steps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use syncguard_history::Random;

/// A wall clock with a bounded random error, which changes every two seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skew {
    most: Duration,
    seed: u64,
}

impl Skew {
    /// A clock whose error is at most `most`, in either direction.
    pub(crate) fn new(most: Duration, seed: u64) -> Self {
        Self { most, seed }
    }

    pub(crate) fn now(&self) -> SystemTime {
        let now = SystemTime::now();
        let step = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 2;
        let most = u64::try_from(self.most.as_millis()).unwrap_or_default();
        let off = Random::new(self.seed ^ step).below(2 * most + 1);
        now + Duration::from_millis(off) - self.most
    }
}
