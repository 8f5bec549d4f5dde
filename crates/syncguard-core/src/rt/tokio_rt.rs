//! The runtime outside of unit tests: tokio.

use std::cell::Cell;
use std::future::Future;
use std::ops::Add;
use std::panic::catch_unwind;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
pub(crate) use tokio::task::yield_now;

#[cfg(target_os = "linux")]
use super::asleep::is_simulated;
use super::asleep::{SUSPEND_CHECK, awake_and_asleep};

/// A point in time by tokio's clock, which a test can pause, plus the time asleep, if the system can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(tokio::time::Instant);

impl Instant {
    pub(crate) fn now() -> Self {
        let (awake, asleep) = awake_and_asleep(tokio::time::Instant::now);
        Self(awake + asleep)
    }

    pub(crate) fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

/// Waits for this long, without the time in which the machine is asleep.
pub(crate) fn sleep_awake(time: Duration) -> impl Future<Output = ()> {
    tokio::time::sleep(time)
}

/// Waits for a point in time; at most [`SUSPEND_CHECK`] longer if the machine was asleep meanwhile. A long wait on Linux does
/// not look for that, because it is told.
pub(crate) async fn sleep_until(deadline: Instant) {
    loop {
        #[cfg(target_os = "linux")]
        let resumed = super::resumed::RESUMED.notified();
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        #[cfg(target_os = "linux")]
        if left > SUSPEND_CHECK && !is_simulated() && super::resumed::is_told() {
            tokio::select! {
                biased;
                () = resumed => {}
                () = tokio::time::sleep(left) => {}
            }
            continue;
        }
        tokio::time::sleep(left.min(SUSPEND_CHECK)).await;
    }
}

/// Whether the current context is a runtime with timers.
pub(crate) fn is_usable() -> bool {
    thread_local! {
        /// The runtime that was found usable on this thread last.
        static USABLE: Cell<Option<Id>> = const { Cell::new(None) };
    }
    let Ok(current) = Handle::try_current() else { return false };
    let id = Some(current.id());
    // tokio has no other way to ask for timers than to make one, which panics if there are none. The panic hook
    // prints that, and with `panic = "abort"` the process ends. The payload is a plain text, safe to drop.
    let is_usable =
        USABLE.get() == id || catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
    if is_usable {
        USABLE.set(id);
    }
    is_usable
}

/// Starts background tasks from anywhere, even from a `Drop` outside the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Spawner(Option<Handle>);

impl Spawner {
    /// Remembers the current runtime, if there is one.
    pub(crate) fn current() -> Self {
        Self(Handle::try_current().ok())
    }

    /// Runs a future in the background: in the current runtime, else in the remembered one. Without a live
    /// runtime the future is dropped.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(handle) = Handle::try_current().ok().or_else(|| self.0.clone()) {
            handle.spawn(future);
        }
    }

    /// The runtimes in which a future could run: the current and the remembered one.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = Runtime> + use<> {
        let current = Handle::try_current().ok();
        let remembered = self.0.clone();
        current.into_iter().chain(remembered).map(Runtime)
    }
}

/// A runtime, which may have shut down.
#[derive(Clone, Debug)]
pub(crate) struct Runtime(Handle);

impl Runtime {
    pub(crate) fn id(&self) -> Id {
        self.0.id()
    }

    /// Runs a future. It is dropped if the runtime has shut down or has no timers.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future);
    }
}

pub(crate) type RuntimeId = Id;

/// A mutex without poisoning: a panic leaves the data behind each of these mutexes consistent.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
