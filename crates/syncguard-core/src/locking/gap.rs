//! Times in which a key is left to those who only look from time to time.

use std::time::{Duration, SystemTime};

/// What is left of the gap that is now, if gaps are as long as this; zero between two of them.
///
/// A twentieth of the time is gap. It goes by the wall clock, so that all processes of a fleet leave the key
/// free at the same time: what one leaves, another one would take. Nothing depends on it but how long
/// somebody waits.
pub(super) fn left_of_gap(gap: Duration) -> Duration {
    if gap.is_zero() {
        return gap;
    }
    left_at(gap, SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default())
}

fn left_at(gap: Duration, time: Duration) -> Duration {
    const ONE_OF: u128 = 20;
    let gone = time.as_nanos() % (gap.as_nanos() * ONE_OF);
    gap.saturating_sub(Duration::from_nanos(u64::try_from(gone).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_of_the_time_is_gap() {
        let ms = Duration::from_millis;
        let years = ms(1_800_000_000_000);
        for (time, left) in [(0, 100), (1, 99), (99, 1), (100, 0), (1_999, 0), (2_000, 100)] {
            assert_eq!(left_at(ms(100), years + ms(time)), ms(left), "{time}");
        }
        assert_eq!(left_of_gap(Duration::ZERO), Duration::ZERO);
    }
}
