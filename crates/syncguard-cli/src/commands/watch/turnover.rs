//! How often each key is granted, by the fences that the last look-ups showed.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The fences of keys in the last looks.
#[derive(Default)]
pub(super) struct Turnover {
    seen: HashMap<String, VecDeque<Look>>,
}

struct Look {
    at: Duration,
    fence: u64,
}

impl Turnover {
    /// The number of looks that the rate is measured over.
    const LOOKS: usize = 10;

    /// The time after which a key without a lock is forgotten.
    const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

    /// Adds a fence. Returns the grants per second since the oldest look that is remembered, if
    /// there is one.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub(super) fn add(&mut self, key: &str, fence: u64, at: Duration) -> Option<f64> {
        let looks = self.seen.entry(key.to_owned()).or_default();
        // The clock was set back, or the store lost its fences.
        if looks.back().is_some_and(|last| last.at >= at || last.fence > fence) {
            looks.clear();
        }
        looks.push_back(Look { at, fence });
        if looks.len() > Self::LOOKS + 1 {
            looks.pop_front();
        }
        let oldest = looks.front().filter(|oldest| oldest.at < at)?;
        let grants = fence.saturating_sub(oldest.fence) as f64;
        Some(grants / at.saturating_sub(oldest.at).as_secs_f64())
    }

    pub(super) fn forget_old(&mut self, now: Duration) {
        self.seen.retain(|_, looks| {
            looks.back().is_some_and(|last| now.saturating_sub(last.at) < Self::FORGOTTEN_AFTER)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn grants_are_counted_by_their_fences() {
        let mut turnover = Turnover::default();
        assert_eq!(turnover.add("k", 7, seconds(100)), None);
        assert_eq!(turnover.add("k", 7, seconds(102)), Some(0.0));
        assert_eq!(turnover.add("other", 7, seconds(102)), None);
        // This holds even if one look-up in between found no lock.
        assert_eq!(turnover.add("k", 17, seconds(105)), Some(2.0));
    }

    #[test]
    fn old_looks_do_not_count() {
        let mut turnover = Turnover::default();
        turnover.add("k", 1, seconds(0));
        for look in 1..=10_u32 {
            let rate = turnover.add("k", 1001, seconds(look.into()));
            assert_eq!(rate, Some(1000.0 / f64::from(look)));
        }
        assert_eq!(turnover.add("k", 1001, seconds(11)), Some(0.0));
        turnover.forget_old(seconds(610));
        assert_eq!(turnover.add("k", 1001, seconds(611)), Some(0.0));
        turnover.forget_old(seconds(1211));
        assert_eq!(turnover.add("k", 1001, seconds(1212)), None);
    }

    #[test]
    fn a_clock_or_a_counter_that_goes_back_starts_anew() {
        let mut turnover = Turnover::default();
        turnover.add("k", 7, seconds(100));
        assert_eq!(turnover.add("k", 8, seconds(90)), None);
        assert_eq!(turnover.add("k", 9, seconds(91)), Some(1.0));
        assert_eq!(turnover.add("k", 1, seconds(92)), None);
    }
}
