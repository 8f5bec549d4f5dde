//! The store's time without a query.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::store_time::{ClockDrift, StoreTime};
use crate::rt::awake_and_asleep;
use crate::value::{LockError, Timestamp};

/// For authors of backends: the store's time as bounds over a clock of this machine that nobody sets and that goes on while
/// the machine sleeps, learned from the store's answers.
///
/// A store whose clients decide when a lock is over needs [`now`](Self::now): the lock of another holder is over only when
/// the *earliest* time is behind its expiry and the tolerance, and an expiry is counted from the *latest* time. So bounds
/// that are wide delay others, and never make two holders. A store that decides by itself needs only the
/// [`deadline`](Self::deadline) of a write that its sender may give up: a request on the wire cannot be taken back, and the
/// store may carry it out long after its sender has given it up.
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
/// assert!(clock.now()?.earliest <= Timestamp::from_millis(1_000_000)?);
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
///
/// # Several sources
///
/// Each member of a cluster has a clock. The earliest time is one that a majority of the members has reached, and the latest
/// one that a majority has not passed. Two majorities share a member, so of any two processes, neither's earliest time is
/// behind the other's latest time, and a minority of wrong clocks changes nothing.
///
/// # A store that tells no time
///
/// Then this machine's wall clock counts. A step of it is a contradiction to the clock that nobody sets: from then on both
/// readings count, the earlier one as the earliest time, the later one as the latest.
pub struct StoreClock {
    base: Instant,
    wall: Clock,
    state: Mutex<State>,
}

/// The wall clock of this machine: [`SystemTime::now`], unless a test replaces it.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// When a request was sent, by a clock that goes on while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SentAt(Instant);

impl SentAt {
    /// A request that is sent now.
    #[must_use]
    pub fn now() -> Self {
        let (awake, asleep) = awake_and_asleep(Instant::now);
        Self(awake + asleep)
    }
}

/// The time that a server's clock showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTime {
    /// Microseconds since 1970, rounded down to a whole unit.
    pub unix_micros: i64,
    /// The unit in which the server tells its time, in microseconds; 0 if the time is exact.
    pub unit_micros: i64,
}

struct State {
    sources: Vec<Source>,
    /// The wall clock, which never forgets a step.
    wall: Source,
}

/// What is known of one clock.
#[derive(Clone, Copy, Default)]
struct Source {
    newest: Option<Bounds>,
    /// What was known before the clock was set, for as long as other processes may go by it.
    former: Option<Bounds>,
}

/// The time of a clock less the time since `base`, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    earliest: i64,
    latest: i64,
    /// When they were true, in microseconds since `base`.
    at: i64,
}

impl Bounds {
    /// They widen by 1 ms in this many milliseconds on each side, which is twice as fast as NTP slews a clock.
    const AGEING: i64 = 1000;

    fn aged(self, at: i64) -> Self {
        let by = (at - self.at).max(0) / Self::AGEING;
        Self { earliest: self.earliest - by, latest: self.latest + by, at }
    }

    /// Both of them; `None` if they contradict each other.
    fn and(self, other: Self) -> Option<Self> {
        let earliest = self.earliest.max(other.earliest);
        let latest = self.latest.min(other.latest);
        (earliest <= latest).then_some(Self { earliest, latest, ..self })
    }

    /// Either of them.
    fn or(self, other: Self) -> Self {
        let earliest = self.earliest.min(other.earliest);
        Self { earliest, latest: self.latest.max(other.latest), ..self }
    }
}

impl Source {
    /// How long former knowledge counts after a clock was set: other processes ask for the time at least once a minute.
    const SETTLES: i64 = 120_000_000;

    fn learn(&mut self, new: Bounds) {
        let known = self.newest.map(|known| known.aged(new.at));
        self.newest = known.map_or(Some(new), |known| known.and(new)).or_else(|| {
            let former = self.safe(new.at, Self::SETTLES);
            self.former = former.map(|former| Bounds { at: new.at, ..former });
            Some(new)
        });
    }

    /// The bounds at this time, with the former ones if they are not older than `settles`.
    fn safe(&self, at: i64, settles: i64) -> Option<Bounds> {
        let newest = self.newest?.aged(at);
        let former = self.former.filter(|former| at - former.at < settles);
        Some(former.map_or(newest, |former| newest.or(former.aged(at))))
    }
}

impl State {
    /// The bounds that a majority of the sources stands for, and whether they are enough to do so.
    fn agreed(&self, at: i64) -> (Option<Bounds>, bool) {
        let known = self.sources.iter().filter_map(|source| source.safe(at, Source::SETTLES));
        let known: Vec<Bounds> = known.collect();
        let majority = self.sources.len() / 2 + 1;
        if known.len() < majority {
            return (known.into_iter().reduce(Bounds::or), false);
        }
        let mut earliest: Vec<i64> = known.iter().map(|it| it.earliest).collect();
        let mut latest: Vec<i64> = known.iter().map(|it| it.latest).collect();
        earliest.sort_unstable_by(|one, other| other.cmp(one));
        latest.sort_unstable();
        let bound = |sorted: &[i64]| sorted.get(majority - 1).copied();
        let both = bound(&earliest).zip(bound(&latest));
        (both.map(|(earliest, latest)| Bounds { earliest, latest, at }), true)
    }
}

impl StoreClock {
    /// A clock of a store with one clock, which has learned nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::of(1, Arc::new(SystemTime::now))
    }

    /// A clock of a store with this many clocks, 1 or more. `wall` counts where none of them is known.
    #[must_use]
    pub fn of(sources: usize, wall: Clock) -> Self {
        let state = State { sources: vec![Source::default(); sources], wall: Source::default() };
        Self { base: SentAt::now().0, wall, state: Mutex::new(state) }
    }

    /// Learns from an answer that came just now to a request sent at `sent`. The store's clock showed `shown`, cut to whole
    /// milliseconds, at some point in between.
    pub fn learn(&self, sent: Instant, shown: Timestamp) {
        let (now, since) = (SentAt::now(), Instant::now().saturating_duration_since(sent));
        let micros = i64::try_from(shown.as_millis()).unwrap_or(i64::MAX).saturating_mul(1000);
        let shown = ServerTime { unix_micros: micros, unit_micros: 1000 };
        self.hears(0, now.0.checked_sub(since).map_or(now, SentAt), shown);
    }

    /// Learns from an answer of this source that came just now to a request sent at `sent`.
    pub fn hears(&self, source: usize, sent: SentAt, shown: ServerTime) {
        let (sent, at) = (self.micros(sent), self.micros(SentAt::now()));
        let until = shown.unix_micros.saturating_add(shown.unit_micros);
        let new = Bounds {
            earliest: shown.unix_micros.saturating_sub(at).clamp(-FAR, FAR),
            latest: until.saturating_sub(sent).clamp(-FAR, FAR),
            at,
        };
        if let Some(source) = self.lock().sources.get_mut(source) {
            source.learn(new);
        }
    }

    /// The store's time now.
    ///
    /// # Errors
    ///
    /// `Internal` for a clock that is out of range.
    pub fn now(&self) -> Result<StoreTime, LockError> {
        let at = self.micros(SentAt::now());
        let mut state = self.lock();
        let (bounds, is_told) = state.agreed(at);
        let bounds = match bounds.filter(|_| is_told) {
            Some(bounds) => bounds,
            None => {
                let wall = unix_micros((self.wall)());
                let after = self.micros(SentAt::now());
                let off = |at| wall.saturating_sub(at).clamp(-FAR, FAR);
                state.wall.learn(Bounds { earliest: off(after), latest: off(at), at: after });
                let wall = state.wall.safe(at, i64::MAX);
                let either = wall.zip(bounds).map(|(wall, bounds)| wall.or(bounds)).or(wall);
                either.ok_or_else(out_of_range)?
            }
        };
        StoreTime::from_micros(bounds.earliest + at, bounds.latest + at, is_told)
            .ok_or_else(out_of_range)
    }

    /// The bounds of one source's clock, if it is known.
    #[must_use]
    pub fn shown_by(&self, source: usize) -> Option<StoreTime> {
        let at = self.micros(SentAt::now());
        let bounds = self.lock().sources.get(source)?.newest?.aged(at);
        StoreTime::from_micros(bounds.earliest + at, bounds.latest + at, true)
    }

    /// How far the clock of one source is ahead of the store's time, if both are known.
    #[must_use]
    pub fn drift_of(&self, source: usize) -> Option<ClockDrift> {
        let time = self.now().ok().filter(|time| time.is_told)?;
        Some(self.shown_by(source)?.ahead_of(time))
    }

    /// How far this machine's wall clock is ahead of the store's time; `None` if that is not known.
    #[must_use]
    pub fn drift(&self) -> Option<ClockDrift> {
        let time = self.now().ok().filter(|time| time.is_told)?;
        let wall = unix_micros((self.wall)());
        Some(StoreTime::from_micros(wall, wall, false)?.ahead_of(time))
    }

    /// The deadline of a request that is sent now and given up after `bound`: the latest time that the store's
    /// clock may show when the bound is over. `None` if nothing was learned yet.
    #[must_use]
    pub fn deadline(&self, bound: Duration) -> Option<Timestamp> {
        let latest = self.lock().sources.first()?.newest?.latest;
        let bound = i64::try_from(bound.as_micros()).unwrap_or(i64::MAX);
        let deadline = (latest + self.micros(SentAt::now())).saturating_add(bound);
        let millis = (deadline.max(0).unsigned_abs() / 1000).saturating_add(2);
        Timestamp::from_millis(millis).or(Timestamp::from_millis(LAST)).ok()
    }

    /// How long until the store's clock has certainly passed this time, by the bounds that were learned.
    #[must_use]
    pub fn passes_in(&self, time: Timestamp) -> Duration {
        let newest = self.lock().sources.first().and_then(|source| source.newest);
        let Some(bounds) = newest else { return Duration::ZERO };
        let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX).saturating_mul(1000);
        let left = time.saturating_sub(bounds.earliest + self.micros(SentAt::now()));
        Duration::from_millis(left.max(0).unsigned_abs().div_ceil(1000))
    }

    /// Microseconds since `base`, at most ten thousand years so that sums cannot overflow.
    fn micros(&self, at: SentAt) -> i64 {
        let since = at.0.saturating_duration_since(self.base).as_micros();
        i64::try_from(since).unwrap_or(i64::MAX).min(FAR)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The highest timestamp: 2⁵³ − 1.
const LAST: u64 = (1 << 53) - 1;

/// Some 30 000 years in microseconds.
const FAR: i64 = 1_000_000_000_000_000_000;

fn unix_micros(time: SystemTime) -> i64 {
    let micros = |since: Duration| i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    }
}

fn out_of_range() -> LockError {
    LockError::internal("the store's clock is out of range")
}

impl Default for StoreClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreClock").field("now", &self.now().ok()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: i64 = 3_600_000;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn deadline(clock: &StoreClock) -> u64 {
        clock.deadline(SECOND).unwrap().as_millis()
    }

    async fn pass(millis: u64) {
        tokio::time::advance(Duration::from_millis(millis)).await;
    }

    /// The earliest and the latest time in milliseconds, and whether the store has told them.
    fn now(clock: &StoreClock) -> (i64, i64, bool) {
        let StoreTime { earliest, latest, is_told } = clock.now().unwrap();
        (earliest.as_millis().cast_signed(), latest.as_millis().cast_signed(), is_told)
    }

    /// The source says now that it is this many milliseconds after 1970, exactly.
    fn says(clock: &StoreClock, source: usize, millis: i64) {
        let shown = ServerTime { unix_micros: millis * 1000, unit_micros: 0 };
        clock.hears(source, SentAt::now(), shown);
    }

    /// A clock whose wall clock is this many milliseconds after 1970, and can be set.
    fn clock(sources: usize, wall: i64) -> (StoreClock, Arc<AtomicI64>) {
        let wall = Arc::new(AtomicI64::new(wall));
        let shown = Arc::clone(&wall);
        let millis = move || shown.load(Ordering::Relaxed).unsigned_abs();
        let time = move || UNIX_EPOCH + Duration::from_millis(millis());
        (StoreClock::of(sources, Arc::new(time)), wall)
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_never_before_the_bound_is_over() {
        let clock = StoreClock::new();
        assert_eq!(clock.deadline(SECOND), None);
        // The store's clock shows 5 000 000 at the base. It answers at any point of the round trip.
        for (there, back) in [(100, 0), (0, 100), (50, 50), (3, 1), (400, 600), (0, 0)] {
            let elapsed = || u64::try_from(clock.base.elapsed().as_millis()).unwrap();
            let sent = Instant::now();
            pass(there).await;
            let shown = 5_000_000 + elapsed();
            pass(back).await;
            clock.learn(sent, at(shown));
            let real = 5_000_000 + elapsed();
            let deadline = deadline(&clock) - 1_000;
            assert!((real..real + 105).contains(&deadline), "{there} {back}: {deadline} {real}");
            let time = clock.now().unwrap();
            assert!(time.earliest <= at(real) && at(real) <= time.latest, "{time:?} {real}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bounds_narrow_by_each_answer_and_widen_with_time() {
        let (clock, _) = clock(1, 0);
        let shown = ServerTime { unix_micros: 10_000_000, unit_micros: 1_000_000 };
        clock.hears(0, SentAt::now(), shown);
        assert_eq!(now(&clock), (10_000, 11_000, true));
        // A second that begins between two answers narrows the bounds to their distance.
        pass(30).await;
        clock.hears(0, SentAt::now(), ServerTime { unix_micros: 11_000_000, ..shown });
        assert_eq!(now(&clock), (11_000, 11_031, true));
        pass(10_000).await;
        assert_eq!(now(&clock), (20_990, 21_041, true));
        // An answer that took long says nothing new.
        let sent = SentAt::now();
        pass(3000).await;
        clock.hears(0, sent, ServerTime { unix_micros: 22_000_000, ..shown });
        assert_eq!(now(&clock), (23_987, 24_044, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_whose_clock_is_set_is_both_early_and_late_for_a_while() {
        let (clock, _) = clock(1, 0);
        says(&clock, 0, HOUR);
        for set in [3 * HOUR, 2 * HOUR] {
            says(&clock, 0, set);
            assert_eq!(now(&clock), (HOUR, 3 * HOUR, true));
            assert_eq!(deadline(&clock).cast_signed(), set + 1_002, "deadlines go by the new time");
        }
        pass(121_000).await;
        says(&clock, 0, 2 * HOUR + 121_000);
        assert_eq!(now(&clock), (2 * HOUR + 121_000, 2 * HOUR + 121_000, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_majority_decides() {
        let told = |says_so: &[(usize, i64)], sources| {
            let (clock, _) = clock(sources, 9 * HOUR);
            for (source, time) in says_so {
                says(&clock, *source, *time);
            }
            now(&clock)
        };
        let h = HOUR;
        assert_eq!(told(&[(0, h), (1, h + 300), (2, 2 * h)], 3), (h + 300, h + 300, true));
        assert_eq!(told(&[(0, h), (1, h + 300), (2, 0)], 3), (h, h, true));
        assert_eq!(told(&[(0, h), (2, h + 300)], 3), (h, h + 300, true));
        assert_eq!(told(&[(0, h), (1, 3 * h)], 2), (h, 3 * h, true), "one of two is wrong");
        let five = [(0, h), (1, h + 100), (2, 5 * h), (3, h + 200), (4, 0)];
        assert_eq!(told(&five, 5), (h + 100, h + 100, true));
        // No process is early where another one is late, whichever members they know.
        for of_one in 0..32_u32 {
            for of_other in 0..32_u32 {
                let known = |set: u32| five.iter().filter(move |(n, _)| set & (1 << n) != 0);
                let [one, other] =
                    [of_one, of_other].map(|set| told(&known(set).copied().collect::<Vec<_>>(), 5));
                assert!(!(one.2 && other.2) || one.0 <= other.1, "{of_one} {of_other}");
            }
        }
        assert_eq!(told(&[(0, h)], 3), (h, 9 * h, false), "fewer, and this machine's clock");
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_whose_clock_is_wrong_is_found() {
        let (clock, wall) = clock(3, HOUR + 700);
        assert_eq!((clock.drift_of(2), clock.drift()), (None, None));
        for (source, time) in [(0, HOUR), (1, HOUR), (2, 2 * HOUR)] {
            says(&clock, source, time);
        }
        let off = |drift: Option<ClockDrift>| drift.unwrap().millis();
        assert_eq!((off(clock.drift_of(0)), off(clock.drift_of(2))), (0, HOUR));
        assert_eq!(off(clock.drift()), 700);
        wall.store(0, Ordering::Relaxed);
        assert_eq!(clock.drift().unwrap().at_least(), Duration::from_secs(3600));
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_stores_time_both_readings_of_a_set_clock_count() {
        let (clock, wall) = clock(1, 5 * HOUR);
        assert_eq!(now(&clock), (5 * HOUR, 5 * HOUR, false));
        wall.store(6 * HOUR, Ordering::Relaxed);
        assert_eq!(now(&clock), (5 * HOUR, 6 * HOUR, false));
        wall.store(4 * HOUR, Ordering::Relaxed);
        assert_eq!(now(&clock), (4 * HOUR, 6 * HOUR, false));
        says(&clock, 0, 2 * HOUR);
        assert_eq!(now(&clock), (2 * HOUR, 2 * HOUR, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_strict_backend_refuses_what_it_does_not_know() {
        let (clock, _) = clock(1, 0);
        assert!(clock.now().unwrap().check(false).is_err());
        let shown = ServerTime { unix_micros: 10_000_000, unit_micros: 1_000_001 };
        clock.hears(0, SentAt::now(), shown);
        let time = clock.now().unwrap();
        assert!(time.check(false).is_ok() && time.check(true).is_err());
        clock.hears(0, SentAt::now(), ServerTime { unit_micros: 1_000_000, ..shown });
        assert!(clock.now().unwrap().check(true).is_ok());
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
        assert!(clock.deadline(Duration::MAX).unwrap().as_millis() > LAST / 10);
        assert!(clock.passes_in(at(LAST)) > SECOND);
        assert!(clock.now().is_ok());
    }
}
