//! Guards whose end waits for the release.

use std::ops::Deref;

use syncguard_core::{DynBackend, ExtendResult, Held, IntoTtl, LockError, ReleaseResult};

use super::Locks;

/// A held lock, with the methods of [`Held`]: its fence, [`valid_for`](Held::valid_for), [`is_lost`](Held::is_lost). A
/// clone of the [`Held`] tells other threads of the lock.
///
/// Dropping the guard releases the lock, and waits for that: for the dispose timeout at most. In a tokio runtime, the drop
/// does not wait.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard {
    held: Held,
    /// `None` after the release.
    guard: Option<crate::LockGuard<DynBackend>>,
    locks: Locks,
}

impl LockGuard {
    pub(super) fn new(guard: crate::LockGuard<DynBackend>, locks: &Locks) -> Self {
        Self { held: guard.held(), guard: Some(guard), locks: locks.clone() }
    }

    /// Extends the lock to `ttl` from now on: see [`syncguard::LockGuard::extend`](crate::LockGuard::extend).
    ///
    /// # Errors
    ///
    /// As there, and `InvalidArgument` as for [`Locks::acquire`].
    pub fn extend(&mut self, ttl: impl IntoTtl) -> Result<ExtendResult, LockError> {
        let ttl = ttl.into_ttl()?;
        let Some(guard) = &mut self.guard else { return Err(released()) };
        self.locks.0.run(guard.extend(ttl), "syncguard::LockGuard::extend")?
    }

    /// Releases the lock and returns whether it was held until now: see
    /// [`syncguard::LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Errors
    ///
    /// As there. `InvalidArgument` as for [`Locks::acquire`]: in a runtime the lock is released in the background then.
    pub fn release(mut self) -> Result<ReleaseResult, LockError> {
        // The guard stays here if the future may not run, and is dropped as usual.
        let release = async { self.guard.take().ok_or_else(released)?.release().await };
        self.locks.0.run(release, "syncguard::LockGuard::release")?
    }
}

impl Deref for LockGuard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        if self.locks.0.is_forked() {
            // The lock is the parent's.
            std::mem::forget(guard);
            return;
        }
        // With the connections, which so live until the lock is released.
        self.locks.0.finish(guard.finish(), self.locks.clone());
    }
}

fn released() -> LockError {
    LockError::internal("the lock of this guard is released")
}
