//! An estimate of the store's clock.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::value::{Timestamp, Ttl};

/// For authors of backends: the bounds of the store's clock, learned from its answers.
///
/// A write that its sender may give up needs a deadline in the store's own time, after which the
/// store refuses it: a request on the wire cannot be taken back, and the store may carry it out long after
/// its sender has given it up. This clock gives that deadline.
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::Timestamp;
/// use syncguard_core::authoring::StoreClock;
/// use tokio::time::Instant;
///
/// let clock = StoreClock::new();
/// assert!(clock.deadline(Duration::from_secs(2)).is_none());
/// let sent = Instant::now();
/// // … the store answers, and says what its clock showed …
/// clock.learn(sent, Timestamp::from_millis(1_000_000)?);
/// assert!(clock.deadline(Duration::from_secs(2)).unwrap() >= Timestamp::from_millis(1_002_000)?);
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
#[derive(Debug)]
pub struct StoreClock {
    base: Instant,
    bounds: Mutex<Option<Bounds>>,
}

/// The store's time less the time since `base`, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    earliest: i64,
    latest: i64,
    /// When the bounds were learned, in milliseconds since `base`.
    at: i64,
}

impl Bounds {
    /// For this time, narrower bounds are better than newer bounds.
    const FRESH: i64 = 10_000;

    fn width(self) -> i64 {
        self.latest - self.earliest
    }

    /// The newest narrow bounds win. If two bounds cannot both be true, the clock was set or
    /// runs at another speed: then the newer bounds are true.
    fn gives_way_to(self, newer: Self) -> bool {
        newer.width() <= self.width()
            || newer.at - self.at > Self::FRESH
            || newer.earliest > self.latest
            || newer.latest < self.earliest
    }
}

impl StoreClock {
    /// A clock that has learned nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { base: Instant::now(), bounds: Mutex::default() }
    }

    /// Learns from an answer that came just now to a request sent at `sent`. The store's clock showed
    /// `shown`, cut to whole milliseconds, at some point in between.
    pub fn learn(&self, sent: Instant, shown: Timestamp) {
        let shown = signed(shown.as_millis());
        let sent = millis(sent.saturating_duration_since(self.base));
        let at = millis(self.base.elapsed());
        let newer = Bounds { earliest: shown - at - 1, latest: shown + 1 - sent, at };
        let mut bounds = self.lock();
        if bounds.is_none_or(|bounds| bounds.gives_way_to(newer)) {
            *bounds = Some(newer);
        }
    }

    /// The deadline of a request that is sent now and given up after `bound`: the latest time that the store's
    /// clock may show when the bound is over. `None` if nothing was learned yet.
    #[must_use]
    pub fn deadline(&self, bound: Duration) -> Option<Timestamp> {
        let latest = (*self.lock())?.latest;
        let now = millis(self.base.elapsed()) + 1;
        let deadline = (latest + now).saturating_add(millis(bound)).max(0);
        Timestamp::from_millis(deadline.unsigned_abs()).or(Timestamp::from_millis(LAST)).ok()
    }

    /// How long until the store's clock has certainly passed this time, by the bounds that were learned.
    #[must_use]
    pub fn passes_in(&self, time: Timestamp) -> Duration {
        let Some(bounds) = *self.lock() else { return Duration::ZERO };
        let now = millis(self.base.elapsed());
        let left = signed(time.as_millis()).saturating_sub(bounds.earliest + now);
        Duration::from_millis(left.max(0).unsigned_abs())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Bounds>> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The highest timestamp: 2⁵³ − 1.
const LAST: u64 = (1 << 53) - 1;

fn signed(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// The milliseconds of a duration, capped at the longest TTL so that sums cannot overflow.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).min(signed(Ttl::MAX.as_millis()))
}

impl Default for StoreClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn deadline(clock: &StoreClock) -> u64 {
        clock.deadline(SECOND).unwrap().as_millis()
    }

    async fn pass(millis: u64) {
        tokio::time::advance(Duration::from_millis(millis)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_never_before_the_bound_is_over() {
        let clock = StoreClock::new();
        assert_eq!(clock.deadline(SECOND), None);
        // The store's clock shows 5 000 000 at the base. It answers at any point of the round trip.
        for (there, back) in [(100, 0), (0, 100), (50, 50), (3, 1), (400, 600), (0, 0)] {
            let sent = Instant::now();
            pass(there).await;
            let shown = 5_000_000 + u64::try_from(millis(clock.base.elapsed())).unwrap();
            pass(back).await;
            clock.learn(sent, at(shown));
            let real = 5_000_000 + u64::try_from(millis(clock.base.elapsed())).unwrap() + 1_000;
            let deadline = deadline(&clock);
            assert!(deadline >= real, "{there} {back}: {deadline} {real}");
            assert!(deadline <= real + 105, "{there} {back}: {deadline} {real}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn narrow_bounds_stay_until_they_are_old_or_wrong() {
        let clock = StoreClock::new();
        clock.learn(Instant::now(), at(1_000_000));
        let narrow = deadline(&clock);
        let sent = Instant::now();
        pass(200).await;
        clock.learn(sent, at(1_000_000));
        assert_eq!(deadline(&clock), narrow + 200, "a wide one that says nothing new");
        // The clock was set back by a minute, and forward again.
        clock.learn(Instant::now(), at(940_200));
        assert_eq!(deadline(&clock), narrow + 200 - 60_000);
        clock.learn(Instant::now(), at(1_000_200));
        assert_eq!(deadline(&clock), narrow + 200);
        // Wide bounds replace old ones.
        pass(11_000).await;
        let sent = Instant::now();
        pass(100).await;
        clock.learn(sent, at(1_011_201));
        assert_eq!(deadline(&clock), narrow + 11_300 + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn it_says_when_a_deadline_has_passed() {
        let clock = StoreClock::new();
        assert_eq!(clock.passes_in(at(7)), Duration::ZERO);
        clock.learn(Instant::now(), at(1_000_000));
        let deadline = clock.deadline(SECOND).unwrap();
        let left = clock.passes_in(deadline);
        assert!(left >= SECOND && left <= SECOND + Duration::from_millis(4), "{left:?}");
        pass(2_000).await;
        assert_eq!(clock.passes_in(deadline), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn no_bound_is_too_long() {
        let clock = StoreClock::new();
        clock.learn(Instant::now(), at(LAST));
        assert_eq!(clock.deadline(Duration::MAX).unwrap().as_millis(), LAST);
        assert!(clock.passes_in(at(LAST)) < SECOND);
    }
}
