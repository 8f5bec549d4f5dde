//! Tells long sleeps that the machine was asleep, on Linux: tokio's timers stand still meanwhile.
//!
//! A timer of the wall clock can be cancelled by a change of that clock, and a machine that wakes up changes it:
//! `timerfd_create(2)`. One thread waits for that, so that no sleep has to look at the clocks in between.

use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fd::OwnedFd;
use rustix::io::{Errno, read};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::sync::Notify;

/// Wakes the sleeps after the machine was asleep.
pub(super) static RESUMED: Notify = Notify::const_new();

static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Whether [`RESUMED`] wakes a sleep that begins now. The first call starts the thread.
pub(super) fn is_told() -> bool {
    static START: LazyLock<()> = LazyLock::new(|| {
        // Never, in seconds since 1970.
        let Ok(timer) = timer(i64::from(u32::MAX)) else { return };
        IS_TOLD.store(true, Ordering::Relaxed);
        let end = || {
            IS_TOLD.store(false, Ordering::Relaxed);
            RESUMED.notify_waiters();
        };
        let thread = thread::Builder::new().name("syncguard-resume".to_owned()).stack_size(1 << 16);
        let thread = thread.spawn(move || {
            while is_changed(&timer) {
                RESUMED.notify_waiters();
            }
            end();
        });
        if thread.is_err() {
            end();
        }
    });
    LazyLock::force(&START);
    IS_TOLD.load(Ordering::Relaxed)
}

/// A timer that ends at this time of the wall clock, or when that clock is changed.
fn timer(at: i64) -> io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    let [it_interval, it_value] = [0, at].map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 });
    timerfd_settime(&timer, flags, &Itimerspec { it_interval, it_value })?;
    Ok(timer)
}

/// Waits until the wall clock is changed. Returns false if the timer tells nothing more.
fn is_changed(timer: &OwnedFd) -> bool {
    loop {
        match read(timer, &mut [0; 8]) {
            Err(Errno::CANCELED) => return true,
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return false,
        }
    }
}
