//! The locks that are compared, behind one trait.

use syncguard_core::{LockBackend, LockGuard, Locker};

/// A lock that can be waited for. A failure is the name of its kind. Each waiter has a clone.
pub trait Lock: Clone + Send + Sync + 'static {
    type Guard: Send + 'static;

    fn acquire(&self, key: &str) -> impl Future<Output = Result<Self::Guard, String>> + Send;
    fn release(&self, guard: Self::Guard) -> impl Future<Output = Result<(), String>> + Send;
}

/// Ours, with default settings.
impl<B: LockBackend> Lock for Locker<B> {
    type Guard = LockGuard<B>;

    async fn acquire(&self, key: &str) -> Result<Self::Guard, String> {
        Locker::acquire(self, key).await.map_err(|error| error.code().to_string())
    }

    async fn release(&self, guard: Self::Guard) -> Result<(), String> {
        guard.release().await.map(drop).map_err(|error| format!("release: {}", error.code()))
    }
}
