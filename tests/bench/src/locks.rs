//! The locks that are compared, behind one trait.

use anyhow::Result;
use syncguard_core::{LockBackend, LockGuard, Locker};

/// A lock that can be waited for. A failure is the name of its kind.
pub(crate) trait Lock: Send + Sync + Sized + 'static {
    type Guard: Send;

    /// The lock for one more waiter of this process.
    fn for_waiter(&self) -> impl Future<Output = Result<Self>> + Send;
    fn acquire(&self, key: &str) -> impl Future<Output = Result<Self::Guard, String>> + Send;
    fn release(&self, guard: Self::Guard) -> impl Future<Output = Result<(), String>> + Send;
}

/// Ours, with default settings.
pub(crate) struct Ours<B>(pub(crate) Locker<B>);

impl<B: LockBackend> Lock for Ours<B> {
    type Guard = LockGuard<B>;

    async fn for_waiter(&self) -> Result<Self> {
        Ok(Self(self.0.clone()))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard, String> {
        self.0.acquire(key).await.map_err(|error| error.code().to_string())
    }

    async fn release(&self, guard: Self::Guard) -> Result<(), String> {
        guard.release().await.map(drop).map_err(|error| format!("release: {}", error.code()))
    }
}
