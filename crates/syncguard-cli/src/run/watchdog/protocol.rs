//! The protocol between `syncguard` and the watchdog process: arguments, orders, and the clock.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Duration;

use rustix::process::{Pid, getpid};
use rustix::time::{ClockId, clock_gettime};

/// The first argument of the watchdog process.
pub(crate) const NAME: &str = "__watchdog";

/// The command has ended: the watchdog ends without killing the group.
pub(super) const DISMISSED: &str = "end\n";

/// Names the group to kill.
pub(super) fn group_order(group: Pid) -> String {
    format!("group {}\n", group.as_raw_nonzero())
}

/// Names the time, by [`now`], when the group is killed if no further order comes.
pub(super) fn deadline_order(deadline: Duration) -> String {
    format!("until {}\n", deadline.as_millis())
}

/// The time, by [`now`], that is this far away: as an argument of another process.
pub(crate) fn deadline_of(time: Duration) -> String {
    now().saturating_add(time).as_millis().to_string()
}

/// Returns whether this time is over, or cannot be read.
pub(crate) fn is_over(deadline: &OsStr) -> bool {
    let deadline = deadline.to_str().and_then(|millis| millis.parse::<u64>().ok());
    deadline.is_none_or(|millis| now() >= Duration::from_millis(millis))
}

/// Tells this watchdog to kill the group of the calling process. Called before the command runs,
/// because `syncguard` may be stopped before it calls `Watchdog::watch`. That call is for systems
/// without `/proc`, on which this one fails.
pub(crate) fn watch_own_group(watchdog: u32) {
    let orders = OpenOptions::new().write(true).open(format!("/proc/{watchdog}/fd/0"));
    // A write this short is atomic: it does not mix with the orders of `syncguard`.
    let _ = orders.and_then(|mut orders| orders.write_all(group_order(getpid()).as_bytes()));
}

/// The machine's clock since boot: the same in all processes, and nobody can set it.
pub(super) fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}
