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

    /// The time that the clock shows.
    pub(crate) fn now(&self) -> SystemTime {
        self.shown(SystemTime::now())
    }

    fn shown(&self, now: SystemTime) -> SystemTime {
        let step = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 2;
        let most = u64::try_from(self.most.as_millis()).unwrap_or_default();
        let off = Random::new(self.seed ^ step).below(2 * most + 1);
        now + Duration::from_millis(off) - self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_off_by_no_more_than_it_may_and_goes_back_now_and_then() {
        let skew = Skew::new(Duration::from_millis(200), 7);
        let mut back = 0;
        for second in 1_000..1_100 {
            let now = UNIX_EPOCH + Duration::from_secs(second);
            let before = skew.shown(now - Duration::from_nanos(1));
            assert!((now - skew.most..=now + skew.most).contains(&skew.shown(now)));
            back += u32::from(before > skew.shown(now));
        }
        assert!(back > 10, "{back}");
    }
}
