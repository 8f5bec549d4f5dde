//! The locks that are compared, all behind one trait.

mod advisory;
#[cfg(feature = "etcd")]
mod etcd;
mod poller;
mod rslock;

use std::sync::Arc;

use anyhow::Result;
use syncguard_core::{LockBackend, LockGuard, Locker};
use tokio::sync::{Mutex, OwnedMutexGuard};

pub(crate) use self::advisory::Advisory;
#[cfg(feature = "etcd")]
pub(crate) use self::etcd::Etcd;
pub(crate) use self::poller::Poller;
pub(crate) use self::rslock::Rslock;

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

pub(crate) struct Tokio(pub(crate) Arc<Mutex<()>>);

impl Lock for Tokio {
    type Guard = OwnedMutexGuard<()>;

    async fn for_waiter(&self) -> Result<Self> {
        Ok(Self(Arc::clone(&self.0)))
    }

    async fn acquire(&self, _key: &str) -> Result<Self::Guard, String> {
        Ok(Arc::clone(&self.0).lock_owned().await)
    }

    async fn release(&self, guard: Self::Guard) -> Result<(), String> {
        drop(guard);
        Ok(())
    }
}
