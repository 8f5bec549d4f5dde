//! The time that all processes of the machine share, and waiting that is exact.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// `CLOCK_MONOTONIC` in ns: the same in all processes of the machine.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Milliseconds since 1970, as the stores count them.
pub fn wall_ms() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64() * 1000.0)
}

/// Waits for so long, and some 0.07 ms more.
///
/// The timer of tokio has steps of 1 ms: of 1 ms it makes 1.1 to 2.2. A spinning thread would burn one of
/// the two cores that the others need, and a sleeping one has to be woken and has to wake us. A timer of the
/// kernel in tokio's own epoll does neither.
pub async fn exactly(time: Duration) -> Result<()> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let once = Itimerspec { it_interval: zero, it_value: Timespec::try_from(time)? };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    #[allow(deprecated, reason = "it is unsound for files that somebody else may close")]
    let timer = AsyncFd::new(timer)?;
    let _ = timer.readable().await?;
    Ok(())
}

/// Waits until the shared clock shows this time.
pub async fn until(time: u64) -> Result<()> {
    match time.saturating_sub(now()) {
        0 => Ok(()),
        left => exactly(Duration::from_nanos(left)).await,
    }
}
