//! How often each key is granted, by the fences and lock ids that the last look-ups showed.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use syncguard::contract::HashId;

/// The gate of readers and writers counts its acquisitions from a multiple of this on.
const PER_SLOT: u64 = 10_000_000_000;

/// From this number on, the milliseconds of the year 2001, a fence is the time of a tick.
const TICKS: u64 = 1_000_000_000_000;

/// The fences of keys in the last looks.
#[derive(Default)]
pub(super) struct Turnover {
    seen: HashMap<String, VecDeque<Look>>,
}

struct Look {
    at: Duration,
    lock: HashId,
    /// The acquisitions, counted from any number on.
    grants: u64,
}

impl Turnover {
    /// The number of looks that the rate is measured over.
    const LOOKS: usize = 10;

    /// The time after which a key without a lock is forgotten.
    const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

    /// Adds a lock with its fence. Returns the grants per second since the oldest look that is remembered, if
    /// there is one.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub(super) fn add(&mut self, key: &str, lock: HashId, fence: u64, at: Duration) -> Option<f64> {
        let looks = self.seen.entry(key.to_owned()).or_default();
        let grants = if fence < TICKS {
            fence % PER_SLOT
        } else {
            // The fences of ticks jump, so their locks are counted.
            looks.back().map_or(0, |last| last.grants + u64::from(last.lock != lock))
        };
        // The clock was set back, or the store lost its fences.
        if looks.back().is_some_and(|last| last.at >= at || last.grants > grants) {
            looks.clear();
        }
        looks.push_back(Look { at, lock, grants });
        if looks.len() > Self::LOOKS + 1 {
            looks.pop_front();
        }
        let oldest = looks.front().filter(|oldest| oldest.at < at)?;
        let grants = grants.saturating_sub(oldest.grants) as f64;
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

    fn one() -> HashId {
        id("one")
    }

    fn id(text: &str) -> HashId {
        syncguard::Key::new(text).unwrap().hash_id()
    }

    /// A reader that announces more slots moves the counter of the gate, and a tick moves it to its time.
    #[test]
    fn fences_that_jump_are_no_grants() {
        let mut turnover = Turnover::default();
        let gate = 64 * PER_SLOT;
        assert_eq!(turnover.add("k:rw:gate", one(), 7, seconds(0)), None);
        assert_eq!(turnover.add("k:rw:gate", id("two"), gate + 9, seconds(1)), Some(2.0));
        assert_eq!(turnover.add("k:rw:gate", id("three"), gate + 11, seconds(2)), Some(2.0));
        let tick = 1_795_600_000_000;
        assert_eq!(turnover.add("tick", one(), tick, seconds(0)), None);
        assert_eq!(turnover.add("tick", one(), tick, seconds(60)), Some(0.0));
        assert_eq!(
            turnover.add("tick", id("two"), tick + 120_000, seconds(120)),
            Some(1.0 / 120.0)
        );
    }

    #[test]
    fn grants_are_counted_by_their_fences() {
        let mut turnover = Turnover::default();
        assert_eq!(turnover.add("k", one(), 7, seconds(100)), None);
        assert_eq!(turnover.add("k", one(), 7, seconds(102)), Some(0.0));
        assert_eq!(turnover.add("other", one(), 7, seconds(102)), None);
        // This holds even if one look-up in between found no lock.
        assert_eq!(turnover.add("k", one(), 17, seconds(105)), Some(2.0));
    }

    #[test]
    fn old_looks_do_not_count() {
        let mut turnover = Turnover::default();
        turnover.add("k", one(), 1, seconds(0));
        for look in 1..=10_u32 {
            let rate = turnover.add("k", one(), 1001, seconds(look.into()));
            assert_eq!(rate, Some(1000.0 / f64::from(look)));
        }
        assert_eq!(turnover.add("k", one(), 1001, seconds(11)), Some(0.0));
        turnover.forget_old(seconds(610));
        assert_eq!(turnover.add("k", one(), 1001, seconds(611)), Some(0.0));
        turnover.forget_old(seconds(1211));
        assert_eq!(turnover.add("k", one(), 1001, seconds(1212)), None);
    }

    #[test]
    fn a_clock_or_a_counter_that_goes_back_starts_anew() {
        let mut turnover = Turnover::default();
        turnover.add("k", one(), 7, seconds(100));
        assert_eq!(turnover.add("k", one(), 8, seconds(90)), None);
        assert_eq!(turnover.add("k", one(), 9, seconds(91)), Some(1.0));
        assert_eq!(turnover.add("k", one(), 1, seconds(92)), None);
    }
}
