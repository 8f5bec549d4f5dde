//! The clock by which locks expire.
//!
//! The wall clock can be set, and this must not end a lock while its holder relies on it. So on Linux, times
//! are those of the boot clock, which never jumps and also counts while the machine sleeps. A boot has an id,
//! and each record names the boot from which its times count. The record also has the difference to the wall
//! clock at the time of the acquisition, which converts its times to Unix time.
//!
//! Some containers each see their own boot id (systemd-nspawn, LXC), although they share one kernel. So a
//! record of another boot is not always over. It is over if the lock was taken before this boot began;
//! otherwise the wall clock decides.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use syncguard_core::{LockError, Timestamp};

/// The clock of this machine, as seen by this process.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    boot: Arc<str>,
    /// How far the boot clock is ahead of that of the machine's first time namespace, in milliseconds.
    ahead: i64,
}

/// A point in time by this clock.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// The boot that `at` counts from; empty if times are those of the wall clock.
    pub(crate) boot: Arc<str>,
    /// The milliseconds since the boot.
    pub(crate) at: Timestamp,
    /// The milliseconds to add to `at` for Unix time, which is also the time when the boot began.
    pub(crate) offset: i64,
}

impl Clock {
    /// # Errors
    ///
    /// `ServiceUnavailable` if the system does not show its boot id.
    pub(crate) fn of_this_machine() -> Result<Self, LockError> {
        let (boot, ahead) = system::boot()?;
        Ok(Self { boot: boot.into(), ahead })
    }

    /// Returns whether the boot is known: if it is, a restart ends all locks.
    pub(crate) fn knows_boot(&self) -> bool {
        !self.boot.is_empty()
    }

    /// # Errors
    ///
    /// `Internal` if the clock's time does not fit in a timestamp.
    pub(crate) fn now(&self) -> Result<Moment, LockError> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros);
        let at = system::clock().map_or(wall, |clock| micros(clock) - self.ahead * 1000);
        let shown = u64::try_from(at / 1000).ok().and_then(|at| Timestamp::from_millis(at).ok());
        let at_time =
            shown.ok_or_else(|| LockError::internal("the machine's clock is out of range"))?;
        Ok(Moment {
            boot: Arc::clone(&self.boot),
            at: at_time,
            offset: (wall - at + 500).div_euclid(1000),
        })
    }
}

impl Moment {
    /// Returns this time by the wall clock.
    pub(crate) fn wall(&self) -> Result<Timestamp, LockError> {
        to_wall(self.at, self.offset)
    }
}

/// Converts a time of a boot to Unix time. Times before 1970, from a clock that was never set, become 1970.
pub(crate) fn to_wall(at: Timestamp, offset: i64) -> Result<Timestamp, LockError> {
    let wall = at.as_millis().saturating_add_signed(offset);
    Timestamp::from_millis(wall)
        .map_err(|_| LockError::internal("the machine's clock is beyond 2^53 - 1 ms"))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Returns a monotonic time with an arbitrary start. It also counts while the machine sleeps, if the system
/// has such a clock.
pub(crate) fn uptime() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    system::clock().unwrap_or_else(|| START.elapsed())
}

#[cfg(target_os = "linux")]
mod system {
    use std::io::{self, ErrorKind};
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};
    use syncguard_core::{ErrorCode, LockError};

    use crate::shortage;

    pub(super) fn clock() -> Option<Duration> {
        Duration::try_from(clock_gettime(ClockId::Boottime)).ok()
    }

    /// Returns the boot's id, and how far this process's boot clock is ahead of the machine's, in ms.
    pub(super) fn boot() -> Result<(String, i64), LockError> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_err(|error| unread(&error))?;
        let id = id.trim();
        if id.len() != 36 {
            return Err(unknown());
        }
        let namespace = |which| std::fs::read_link(format!("/proc/self/ns/{which}")).ok();
        if namespace("time") != namespace("time_for_children") {
            return Err(between_namespaces());
        }
        let offsets = match std::fs::read_to_string("/proc/self/timens_offsets") {
            Ok(offsets) => offsets,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unread(&error)),
        };
        Ok((id.to_owned(), ahead(&offsets)))
    }

    /// The system shows only the clock of this process's children.
    fn between_namespaces() -> LockError {
        LockError::invalid_argument(
            "this process has made a time namespace for its children, so the system does not tell how far its own clock is ahead of the machine's; open the lock file before that, or in a child",
        )
    }

    fn unread(error: &io::Error) -> LockError {
        shortage::of_descriptors(error).unwrap_or_else(|| unknown().with_source(error))
    }

    fn unknown() -> LockError {
        LockError::new(
            ErrorCode::ServiceUnavailable,
            "this system does not tell which boot it is; locks in a file need /proc/sys/kernel/random/boot_id",
        )
    }

    /// Reads from `timens_offsets` how many milliseconds the clock of this time namespace is ahead. Systems
    /// without time namespaces have no such file.
    pub(super) fn ahead(offsets: &str) -> i64 {
        let line = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
        let mut numbers = line.unwrap_or_default().split_whitespace().map(str::parse::<i64>);
        let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
        next().saturating_mul(1000) + next() / 1_000_000
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::time::Duration;

    use syncguard_core::LockError;

    /// There is no clock with a known boot: times are those of the wall clock.
    pub(super) fn clock() -> Option<Duration> {
        None
    }

    #[expect(clippy::unnecessary_wraps, reason = "on Linux it can fail")]
    pub(super) fn boot() -> Result<(String, i64), LockError> {
        Ok((String::new(), 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_and_shows_the_wall_clock_as_well() {
        let clock = Clock::of_this_machine().unwrap();
        let first = clock.now().unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let second = clock.now().unwrap();
        assert!(second.at > first.at);
        assert_eq!(first.boot, second.boot);
        let wall = Timestamp::from_system_time(SystemTime::now()).unwrap();
        assert!(wall - second.wall().unwrap() < Duration::from_secs(1));
        assert!(second.wall().unwrap() - wall < Duration::from_secs(1));
    }

    #[test]
    fn a_clock_that_was_never_set_is_no_error() {
        let at = Timestamp::from_millis(5).unwrap();
        assert_eq!(to_wall(at, -7).unwrap().as_millis(), 0);
        assert_eq!(to_wall(at, 7).unwrap().as_millis(), 12);
        assert!(to_wall(at, i64::MAX).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_time_namespace_is_taken_out() {
        let ahead = system::ahead;
        assert_eq!(ahead("monotonic           0         0\nboottime            0         0\n"), 0);
        assert_eq!(ahead("monotonic 1 2\nboottime 86400 500000000\n"), 86_400_500);
        assert_eq!(ahead("boottime -7 0"), -7_000);
        for nothing in ["", "boottime", "boottime x y", "monotonic 5 5"] {
            assert_eq!(ahead(nothing), 0);
        }
    }
}
