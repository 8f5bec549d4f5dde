//! The real surroundings: tokio.

use std::future::Future;
use std::sync::PoisonError;

use tokio::runtime::Handle;
pub(crate) use tokio::time::{Instant, sleep_until};

/// Starts background tasks from anywhere, also from a `Drop` outside the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Spawner(Option<Handle>);

impl Spawner {
    /// Remembers the runtime this is called in, if there is one.
    pub(crate) fn current() -> Self {
        Self(Handle::try_current().ok())
    }

    /// Whether there is a runtime: without one, nothing can wait or run in the background.
    pub(crate) fn is_available(&self) -> bool {
        self.0.is_some()
    }

    /// Runs a future in the background. Without a runtime, or after it has shut down, the future is
    /// dropped: a lock then ends by its TTL.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(handle) = self.0.clone().or_else(|| Handle::try_current().ok()) {
            handle.spawn(future);
        } else {
            tracing::debug!("no runtime to finish in; a lock may stay until it expires");
        }
    }
}

/// A mutex whose data stays consistent whatever happens under it, so poisoning means nothing.
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
