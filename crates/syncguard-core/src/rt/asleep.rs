//! How long the machine has been asleep.
//!
//! The store's clock goes on while a laptop sleeps, but on Linux and Apple's systems `std::time::Instant`
//! stands still. This module measures the difference to a clock that goes on. On other systems it adds
//! nothing: on Windows `Instant` itself goes on, and the rest cannot tell.
//!
//! A virtual machine and its clocks do not notice a pause from outside.

use std::time::Duration;

use tokio::time::Instant;

/// How often a sleep checks for time that the machine was asleep, if nothing tells it: so it ends at most this late.
#[cfg_attr(test, expect(dead_code, reason = "the model's clock never sleeps"))]
pub(crate) const SUSPEND_CHECK: Duration = Duration::from_secs(5);

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(crate) use counted::awake_and_asleep;

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(crate) fn awake_and_asleep(read: impl FnOnce() -> Instant) -> (Instant, Duration) {
    (read(), Duration::ZERO)
}

#[cfg(feature = "test-util")]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static ASLEEP: Cell<Option<Duration>> = const { Cell::new(None) };
    }

    /// For simulations: on this thread the machine has been asleep for so long. `None` returns to the system's clocks.
    pub fn simulate_sleep(asleep: Option<Duration>) {
        ASLEEP.set(asleep);
    }

    pub(super) fn asleep() -> Option<Duration> {
        ASLEEP.get()
    }
}

/// Whether a simulation lets the machine of this thread sleep.
#[cfg(all(target_os = "linux", not(test)))]
pub(super) fn is_simulated() -> bool {
    #[cfg(feature = "test-util")]
    return simulated::asleep().is_some();
    #[cfg(not(feature = "test-util"))]
    false
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
mod counted {
    use std::sync::LazyLock;

    use rustix::time::{ClockId, clock_gettime};

    use super::{Duration, Instant};

    /// The clock that goes on during sleep. On Apple's systems that is the monotonic clock.
    #[cfg(target_os = "linux")]
    const GOES_ON: ClockId = ClockId::Boottime;
    #[cfg(target_vendor = "apple")]
    const GOES_ON: ClockId = ClockId::Monotonic;

    type Std = std::time::Instant;

    /// Returns the time by `read`, which is tokio's clock, and the time asleep since the first call.
    pub(crate) fn awake_and_asleep(read: impl FnOnce() -> Instant) -> (Instant, Duration) {
        static START: LazyLock<(Std, Duration)> = LazyLock::new(|| (Std::now(), goes_on()));
        #[cfg(feature = "test-util")]
        if let Some(asleep) = super::simulated::asleep() {
            return (read(), asleep);
        }
        let (stands_still, went_on) = &*START;
        // In this order, a pause between the two reads makes the result smaller, so that a point in time is
        // earlier and not later.
        let real = goes_on().saturating_sub(*went_on);
        let now = read();
        let asleep = without_noise(
            real.saturating_sub(now.into_std().saturating_duration_since(*stands_still)),
        );
        if asleep.is_zero() {
            return (now, asleep);
        }
        // A test may have paused tokio's clock.
        let real = goes_on().saturating_sub(*went_on);
        (now, without_noise(real.saturating_sub(stands_still.elapsed())))
    }

    fn goes_on() -> Duration {
        Duration::try_from(clock_gettime(GOES_ON)).unwrap_or_default()
    }

    /// Rounds down to 10 ms, because the two clocks are not read at the same moment.
    fn without_noise(asleep: Duration) -> Duration {
        const NOISE: u32 = 10_000_000;
        Duration::new(asleep.as_secs(), asleep.subsec_nanos() / NOISE * NOISE)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn no_time_is_counted_while_the_machine_is_awake() {
            let _ = awake_and_asleep(Instant::now);
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(awake_and_asleep(Instant::now).1, Duration::ZERO);
            // A clock that lags, like one that a test has paused.
            let slow = || Instant::now() - Duration::from_millis(15);
            assert_eq!(awake_and_asleep(slow).1, Duration::ZERO);
        }

        #[test]
        fn noise_is_not_sleep() {
            assert_eq!(without_noise(Duration::from_micros(9_999)), Duration::ZERO);
            let asleep = Duration::from_millis(3_600_019);
            assert_eq!(without_noise(asleep), Duration::from_millis(3_600_010));
        }
    }
}
