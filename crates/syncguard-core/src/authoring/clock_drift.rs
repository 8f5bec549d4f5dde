//! How far this machine's clock is off the server's, on stores whose locks live by the clocks of the clients.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::client::outage_log::LOG_AGAIN;
use crate::value::{ErrorCode, LockError, Timestamp};

/// How far this machine's clock is ahead of the server's (negative: behind it).
///
/// A response with the server's time shows what the server's clock read between the request and the response. So
/// the true drift is within the bounds, which are no further apart than a round trip and the server's unit of time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClockDrift {
    lowest: i64,
    highest: i64,
}

impl ClockDrift {
    /// The drift from which on the backend logs a warning.
    pub const WARN: Duration = Duration::from_millis(200);

    /// The drift from which on the backend logs an error, and acquires nothing if it is set to be strict.
    pub const BLOCK: Duration = Duration::from_millis(500);

    /// Returns the bounds in milliseconds, the lower bound first.
    #[must_use]
    pub const fn bounds_millis(self) -> (i64, i64) {
        (self.lowest / 1000, self.highest / 1000)
    }

    /// Returns the middle of the bounds in milliseconds, which is the best estimate.
    #[must_use]
    pub const fn millis(self) -> i64 {
        i64::midpoint(self.lowest, self.highest) / 1000
    }

    /// Returns the smallest possible difference between the clocks, whichever is ahead.
    #[must_use]
    pub const fn at_least(self) -> Duration {
        Duration::from_micros(self.smallest().unsigned_abs())
    }

    const fn smallest(self) -> i64 {
        if self.lowest > 0 {
            return self.lowest;
        }
        if self.highest < 0 { self.highest } else { 0 }
    }

    /// Returns how serious the drift is.
    #[must_use]
    pub fn level(self) -> DriftLevel {
        match self.at_least() {
            drift if drift >= Self::BLOCK => DriftLevel::Block,
            drift if drift >= Self::WARN => DriftLevel::Warn,
            _ => DriftLevel::Fine,
        }
    }
}

impl fmt::Debug for ClockDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lowest, highest) = self.bounds_millis();
        write!(f, "ClockDrift({lowest} ms to {highest} ms)")
    }
}

/// How serious a drift is; the limits are those of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DriftLevel {
    /// Below 200 ms, as far as the backend can measure.
    Fine,
    /// From 200 ms: check the time synchronization.
    Warn,
    /// From 500 ms: locks are not safe. From 1000 ms on, two clients may hold one lock.
    Block,
}

/// The bounds that one response gives, in microseconds.
#[derive(Debug)]
struct Sample {
    lowest: i64,
    highest: i64,
    at: Instant,
}

/// The time at which a request was sent, by the wall clock and the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SentAt {
    wall: SystemTime,
    at: Instant,
}

impl SentAt {
    /// A request that is sent now; `wall` is what this machine's clock shows.
    #[must_use]
    pub fn now(wall: SystemTime) -> Self {
        Self { wall, at: Instant::now() }
    }

    /// The wall clock is read only once, at sending. If it jumps meanwhile, the next response shows it.
    fn sample(&self, shown: ServerTime, now: Instant) -> Option<Sample> {
        let at_sending = unix_micros(self.wall)?.checked_sub(shown.unix_micros)?;
        let round_trip = i64::try_from((now - self.at).as_micros()).ok()?;
        Some(Sample {
            lowest: at_sending.checked_sub(shown.unit_micros)?,
            highest: at_sending.checked_add(round_trip)?,
            at: now,
        })
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

fn unix_micros(time: SystemTime) -> Option<i64> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).ok(),
        Err(before) => i64::try_from(before.duration().as_micros()).ok().map(|micros| -micros),
    }
}

/// The clock of this machine: [`SystemTime::now`], unless a test replaces it.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// For authors of backends: reads this machine's clock, measures its drift from the responses, and logs a drift that is
/// dangerous.
pub struct DriftGauge {
    backend: &'static str,
    clock: Clock,
    is_strict: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: Option<Sample>,
    logged: Option<(DriftLevel, Instant)>,
}

impl DriftGauge {
    /// The bounds widen by 1 ms in this many milliseconds, which is twice as fast as NTP slews a clock.
    const AGEING: u128 = 1000;

    /// A gauge that knows nothing yet, of a backend with this name in the log. One that is strict lets the backend acquire
    /// nothing while the clock is far off: see [`check`](Self::check).
    #[must_use]
    pub fn new(backend: &'static str, clock: Clock, is_strict: bool) -> Self {
        Self { backend, clock, is_strict, state: Mutex::default() }
    }

    /// The time by this machine's clock.
    #[must_use]
    pub fn time(&self) -> SystemTime {
        (self.clock)()
    }

    /// The time by this machine's clock, in the form that locks store.
    ///
    /// # Errors
    ///
    /// `Internal` for a clock that is out of range.
    pub fn now(&self) -> Result<Timestamp, LockError> {
        Timestamp::from_system_time(self.time())
            .map_err(|_| LockError::internal("this machine's clock is out of range"))
    }

    /// The time of a request that is sent now.
    #[must_use]
    pub fn sends(&self) -> SentAt {
        SentAt::now(self.time())
    }

    /// Takes the time of the server from a response that has just arrived.
    pub fn take(&self, sent: &SentAt, shown: ServerTime) {
        let now = Instant::now();
        let Some(sample) = sent.sample(shown, now) else { return };
        let mut state = self.state();
        let sample = match state.known.take() {
            Some(known) => narrowed(&known, sample),
            None => sample,
        };
        let drift = ClockDrift { lowest: sample.lowest, highest: sample.highest };
        state.known = Some(sample);
        let level = drift.level();
        let quiet = state.logged.is_some_and(|(logged, at)| {
            level <= logged && now.saturating_duration_since(at) < LOG_AGAIN
        });
        if level > DriftLevel::Fine && !quiet {
            state.logged = Some((level, now));
            drop(state);
            self.log(drift);
        }
    }

    /// The drift by the responses so far; `None` before the first one.
    #[must_use]
    pub fn drift(&self) -> Option<ClockDrift> {
        let state = self.state();
        let known = state.known.as_ref()?;
        Some(ClockDrift { lowest: known.lowest, highest: known.highest })
    }

    /// The earliest time that the server's clock can show at this time of this machine's clock.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a time out of range.
    pub fn earliest_server_time(&self, now: Timestamp) -> Result<Timestamp, LockError> {
        let Some(drift) = self.drift() else { return Ok(now) };
        // Cut off towards the earlier time.
        let (_, ahead) = drift.bounds_millis();
        Timestamp::from_millis(now.as_millis().saturating_add_signed(-ahead - 1))
    }

    /// The time that the server's clock shows at this time of this machine's clock, by the smallest drift that agrees with
    /// the responses: for a server that tells its time too roughly for
    /// [`earliest_server_time`](Self::earliest_server_time).
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a time out of range.
    pub fn nearest_server_time(&self, now: Timestamp) -> Result<Timestamp, LockError> {
        let Some(drift) = self.drift() else { return Ok(now) };
        Timestamp::from_millis(now.as_millis().saturating_add_signed(-drift.smallest() / 1000))
    }

    /// Checks that the backend may acquire locks.
    ///
    /// # Errors
    ///
    /// `ServiceUnavailable` if the gauge is strict and this machine's clock is 500 ms or more off.
    pub fn check(&self) -> Result<(), LockError> {
        match self.drift() {
            Some(drift) if self.is_strict && drift.level() == DriftLevel::Block => {
                Err(LockError::new(
                    ErrorCode::ServiceUnavailable,
                    format!(
                        "this machine's clock is at least {} ms off the server's; locks are refused from \
                     500 ms on",
                        drift.at_least().as_millis()
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    fn log(&self, drift: ClockDrift) {
        let (drift_ms, at_least_ms) = (drift.millis(), drift.at_least().as_millis());
        let backend = self.backend;
        if drift.level() == DriftLevel::Block {
            tracing::error!(
                backend,
                drift_ms,
                at_least_ms,
                "this machine's clock is 500 ms or more off the store's: locks are not safe on it"
            );
        } else {
            tracing::warn!(
                backend,
                drift_ms,
                at_least_ms,
                "this machine's clock is 200 ms or more off the store's"
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for DriftGauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriftGauge").field("drift", &self.drift()).finish()
    }
}

/// Returns the intersection of the old bounds and the new ones; the new ones alone if the clock was set in
/// between, which leaves no intersection.
fn narrowed(known: &Sample, new: Sample) -> Sample {
    let age = new.at.saturating_duration_since(known.at).as_micros() / DriftGauge::AGEING;
    let age = i64::try_from(age).unwrap_or(i64::MAX);
    let lowest = known.lowest.saturating_sub(age).max(new.lowest);
    let highest = known.highest.saturating_add(age).min(new.highest);
    if lowest <= highest { Sample { lowest, highest, at: new.at } } else { new }
}
