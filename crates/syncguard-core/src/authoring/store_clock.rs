//! The store's time without a query.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::store_time::StoreTime;
use crate::contract::clock_drift::ClockDrift;
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
/// let clock = StoreClock::default();
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

/// The knowledge of one clock.
#[derive(Clone, Copy, Default)]
struct Source {
    newest: Option<Bounds>,
    /// The knowledge from before the clock was set, for as long as other processes may go by it.
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
    /// A clock of a store with this many clocks. `wall` counts where a majority of them is not known; of a store without a clock,
    /// in tests, it is the store's time.
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
        if state.sources.is_empty() {
            let wall = unix_micros((self.wall)());
            return StoreTime::from_micros(wall, wall, true).ok_or_else(out_of_range);
        }
        let (told, is_told) = state.agreed(at);
        let bounds = if is_told {
            told
        } else {
            let wall = unix_micros((self.wall)());
            let after = self.micros(SentAt::now());
            let off = |at| wall.saturating_sub(at).clamp(-FAR, FAR);
            state.wall.learn(Bounds { earliest: off(after), latest: off(at), at: after });
            let wall = state.wall.safe(at, i64::MAX);
            told.zip(wall).map(|(told, wall)| told.or(wall)).or(wall)
        };
        let time = |it: Bounds| StoreTime::from_micros(it.earliest + at, it.latest + at, is_told);
        bounds.and_then(time).ok_or_else(out_of_range)
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

/// The clock of a store with one clock, which has learned nothing yet.
impl Default for StoreClock {
    fn default() -> Self {
        Self::of(1, Arc::new(SystemTime::now))
    }
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreClock").field("now", &self.now().ok()).finish_non_exhaustive()
    }
}
