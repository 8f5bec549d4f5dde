//! A backend with the settings of its locks.

use std::future::Future;
use std::time::Duration;

use super::acquire::{TryAcquired, acquire, try_acquire};
use super::config::{LockConfig, Policy, policy_methods};
use super::guard::{Held, LockGuard};
use super::lock::{lock, run};
use crate::backend::LockBackend;
use crate::value::{IntoKey, LockError};

/// A backend with the settings of its locks: configure once, use everywhere. TypeScript: `createLock`.
///
/// A `Locker` is cheap to clone, and a clone can be configured differently.
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::{LockBackend, LockError, Locker};
///
/// async fn book<B: LockBackend>(locker: &Locker<B>, account: u64) -> Result<(), LockError> {
///     locker.lock(format!("account:{account}"), async |_held| { /* … */ }).await
/// }
///
/// fn configure<B: LockBackend>(backend: B) -> Locker<B> {
///     Locker::new(backend).with_ttl(Duration::from_secs(10))
/// }
/// ```
#[derive(Clone)]
pub struct Locker<B> {
    backend: B,
    policy: Policy,
}

impl<B: LockBackend> Locker<B> {
    /// Locks on this backend with the defaults.
    #[must_use]
    pub fn new(backend: B) -> Self {
        Self { backend, policy: Policy::default() }
    }

    policy_methods!();

    /// The backend, for single requests and diagnostics.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Runs work while holding the lock of this key: see [`lock`](crate::lock()).
    ///
    /// # Errors
    ///
    /// As [`lock`](crate::lock()).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](crate::lock()).
    pub async fn lock<W, F>(&self, key: impl IntoKey, work: W) -> Result<F::Output, LockError>
    where
        W: FnOnce(Held<B::Fence>) -> F,
        F: Future,
    {
        lock(&self.backend, self.config(key), work).await
    }

    /// Runs work for as long as the lock of this key is held: see [`run`](crate::run()).
    ///
    /// # Errors
    ///
    /// As [`run`](crate::run()).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](crate::run()).
    pub async fn run<W, F, T, E>(&self, key: impl IntoKey, work: W) -> Result<T, E>
    where
        W: FnOnce(Held<B::Fence>) -> F,
        F: Future<Output = Result<T, E>>,
        E: From<LockError>,
    {
        run(&self.backend, self.config(key), work).await
    }

    /// Takes the lock of this key, waiting for its turn: see [`acquire`](crate::acquire()).
    ///
    /// # Errors
    ///
    /// As [`acquire`](crate::acquire()).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](crate::acquire()).
    pub fn acquire(
        &self,
        key: impl IntoKey,
    ) -> impl Future<Output = Result<LockGuard<B>, LockError>> {
        acquire(&self.backend, self.config(key))
    }

    /// Takes the lock of this key if it is free right now: see [`try_acquire`](crate::try_acquire()).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](crate::try_acquire()).
    ///
    /// # Cancel safety
    ///
    /// As [`try_acquire`](crate::try_acquire()).
    pub async fn try_acquire(
        &self,
        key: impl IntoKey,
    ) -> Result<TryAcquired<LockGuard<B>>, LockError> {
        try_acquire(&self.backend, self.config(key)).await
    }

    /// Waits, for this long at the most, until every abandoned lock is given back. Returns how many are not:
    /// see [`ClientState::drained`](crate::shared::ClientState::drained).
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future ends only the wait.
    pub async fn drained(&self, timeout: Duration) -> usize {
        self.backend.client_state().drained(timeout).await
    }

    fn config(&self, key: impl IntoKey) -> LockConfig {
        LockConfig::with_policy(key, self.policy.clone())
    }
}

impl<B: LockBackend> std::fmt::Debug for Locker<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locker")
            .field("backend", &self.backend.capabilities().backend)
            .field("policy", &self.policy)
            .finish()
    }
}
