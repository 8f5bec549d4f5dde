//! How far this machine's clock is off the server's.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gcloud_sdk::prost_types;
use syncguard_core::{ErrorCode, LockError};
use tokio::time::Instant;

use crate::clock::Clock;

/// How far this machine's clock is ahead of Firestore's (negative: behind it).
///
/// Each response carries the server's time, which the server read between the request and the response. So
/// the true drift is within the bounds, which are no further apart than a round trip.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClockDrift {
    lowest: i64,
    highest: i64,
}

impl ClockDrift {
    /// The drift from which on the backend logs a warning.
    pub const WARN: Duration = Duration::from_millis(200);

    /// The drift from which on the backend logs an error, and acquires nothing if it is
    /// [strict](crate::FirestoreOptions::with_strict_clock).
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
        let nearest = if self.lowest > 0 {
            self.lowest
        } else if self.highest < 0 {
            self.highest
        } else {
            0
        };
        Duration::from_micros(nearest.unsigned_abs())
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
struct Sample {
    lowest: i64,
    highest: i64,
    at: Instant,
}

/// The time at which a request was sent, by the wall clock and the monotonic clock.
pub(crate) struct Sent {
    wall: SystemTime,
    at: Instant,
}

impl Sent {
    pub(crate) fn now(clock: &Clock) -> Self {
        Self { wall: clock(), at: Instant::now() }
    }

    /// The wall clock is read only once, at sending. If it jumps meanwhile, the next response shows it.
    fn sample(&self, server: &prost_types::Timestamp, now: Instant) -> Option<Sample> {
        let server = server.seconds.checked_mul(1_000_000)? + i64::from(server.nanos / 1000);
        let lowest = unix_micros(self.wall)?.checked_sub(server)?;
        let round_trip = i64::try_from((now - self.at).as_micros()).ok()?;
        Some(Sample { lowest, highest: lowest.checked_add(round_trip)?, at: now })
    }
}

fn unix_micros(time: SystemTime) -> Option<i64> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).ok(),
        Err(before) => i64::try_from(before.duration().as_micros()).ok().map(|micros| -micros),
    }
}

/// Measures the drift from the responses.
#[derive(Default)]
pub(crate) struct Gauge(Mutex<State>);

#[derive(Default)]
struct State {
    known: Option<Sample>,
    logged: Option<(DriftLevel, Instant)>,
}

impl Gauge {
    /// After this time a level that has not risen is logged again.
    const LOG_EVERY: Duration = Duration::from_secs(60);

    /// The bounds widen by 1 ms in this many milliseconds, which is twice as fast as NTP slews a clock.
    const AGEING: u128 = 1000;

    /// Takes the server's time from a response that has just arrived.
    pub(crate) fn take(&self, sent: &Sent, server: &prost_types::Timestamp) {
        self.take_at(sent, server, Instant::now());
    }

    fn take_at(&self, sent: &Sent, server: &prost_types::Timestamp, now: Instant) {
        let Some(sample) = sent.sample(server, now) else { return };
        let mut state = self.state();
        let sample = match state.known.take() {
            Some(known) => narrowed(&known, sample),
            None => sample,
        };
        let drift = ClockDrift { lowest: sample.lowest, highest: sample.highest };
        state.known = Some(sample);
        let level = drift.level();
        let quiet = state.logged.is_some_and(|(logged, at)| {
            level <= logged && now.saturating_duration_since(at) < Self::LOG_EVERY
        });
        if level > DriftLevel::Fine && !quiet {
            state.logged = Some((level, now));
            drop(state);
            log(drift);
        }
    }

    pub(crate) fn drift(&self) -> Option<ClockDrift> {
        let state = self.state();
        let known = state.known.as_ref()?;
        Some(ClockDrift { lowest: known.lowest, highest: known.highest })
    }

    /// # Errors
    ///
    /// `ServiceUnavailable` if this machine's clock is 500 ms or more off.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        match self.drift() {
            Some(drift) if drift.level() == DriftLevel::Block => Err(LockError::new(
                ErrorCode::ServiceUnavailable,
                format!(
                    "this machine's clock is at least {} ms off the server's; locks are refused from \
                     500 ms on",
                    drift.at_least().as_millis()
                ),
            )),
            _ => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the intersection of the old bounds and the new ones; the new ones alone if the clock was set in
/// between, which leaves no intersection.
fn narrowed(known: &Sample, new: Sample) -> Sample {
    let age = new.at.saturating_duration_since(known.at).as_micros() / Gauge::AGEING;
    let age = i64::try_from(age).unwrap_or(i64::MAX);
    let lowest = known.lowest.saturating_sub(age).max(new.lowest);
    let highest = known.highest.saturating_add(age).min(new.highest);
    if lowest <= highest { Sample { lowest, highest, at: new.at } } else { new }
}

fn log(drift: ClockDrift) {
    let (drift_ms, at_least_ms) = (drift.millis(), drift.at_least().as_millis());
    if drift.level() == DriftLevel::Block {
        tracing::error!(
            drift_ms,
            at_least_ms,
            "this machine's clock is 500 ms or more off Firestore's: locks are not safe on it"
        );
    } else {
        tracing::warn!(
            drift_ms,
            at_least_ms,
            "this machine's clock is 200 ms or more off Firestore's"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_logs::logged;

    /// Gives the gauge a response after `round_trip` ms from a server whose clock reads `server`, to a
    /// client whose clock read `client` when it sent the request; all in ms.
    fn respond(gauge: &Gauge, client: u64, round_trip: u64, server: i64) -> ClockDrift {
        let at = Instant::now();
        let sent = Sent { wall: UNIX_EPOCH + Duration::from_millis(client), at };
        let nanos = i32::try_from(server % 1000).unwrap() * 1_000_000;
        let server = prost_types::Timestamp { seconds: server / 1000, nanos };
        gauge.take_at(&sent, &server, at + Duration::from_millis(round_trip));
        gauge.drift().unwrap()
    }

    #[test]
    fn the_drift_is_bounded_by_the_round_trip() {
        let drift = respond(&Gauge::default(), 10_000, 100, 9_000);
        assert_eq!(drift.bounds_millis(), (1000, 1100));
        assert_eq!(drift.at_least(), Duration::from_secs(1));
    }

    #[test]
    fn a_slow_answer_proves_nothing() {
        let drift = respond(&Gauge::default(), 10_000, 3000, 11_000);
        assert_eq!(drift.at_least(), Duration::ZERO);
        assert_eq!(drift.level(), DriftLevel::Fine);
    }

    #[test]
    fn a_slow_answer_does_not_undo_what_a_fast_one_has_proved() {
        let gauge = Gauge::default();
        respond(&gauge, 10_000, 20, 9_300);
        let drift = respond(&gauge, 10_000, 3000, 11_000);
        assert_eq!(drift.level(), DriftLevel::Block);
        assert!(gauge.check().is_err());
    }

    #[test]
    fn a_clock_that_was_set_is_seen_at_once() {
        let gauge = Gauge::default();
        assert_eq!(respond(&gauge, 10_000, 20, 9_300).level(), DriftLevel::Block);
        assert_eq!(respond(&gauge, 10_000, 20, 10_010).level(), DriftLevel::Fine);
        assert!(gauge.check().is_ok());
    }

    #[test]
    fn the_ladder_holds_both_ways() {
        for (server, level) in [
            (10_000, DriftLevel::Fine),
            (9_801, DriftLevel::Fine),
            (9_800, DriftLevel::Warn),
            (9_501, DriftLevel::Warn),
            (9_500, DriftLevel::Block),
            // A client clock that is behind may be nearer by the round trip of 5 ms.
            (10_204, DriftLevel::Fine),
            (10_205, DriftLevel::Warn),
            (10_504, DriftLevel::Warn),
            (10_505, DriftLevel::Block),
        ] {
            assert_eq!(respond(&Gauge::default(), 10_000, 5, server).level(), level, "{server}");
        }
    }

    #[test]
    fn each_step_of_the_ladder_is_logged_once_a_minute() {
        let gauge = Gauge::default();
        let lines = |server| {
            logged(|| {
                for _ in 0..3 {
                    respond(&gauge, 10_000, 5, server);
                }
            })
        };
        assert!(lines(9_900).is_empty());
        let warned = lines(9_700);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].starts_with("WARN"), "{warned:?}");
        let reported = lines(9_400);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].starts_with("ERROR"), "{reported:?}");
        assert!(lines(10_900).is_empty(), "less than a minute ago");
    }
}
