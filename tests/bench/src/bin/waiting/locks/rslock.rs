//! rslock, on Redis.

use std::time::Duration;

use anyhow::{Result, anyhow};

use super::Lock;

pub(crate) struct Rslock(rslock::LockManager);

impl Rslock {
    pub(crate) fn new(url: &str) -> Self {
        Self(rslock::LockManager::new(vec![url]))
    }
}

impl Lock for Rslock {
    type Guard = rslock::Lock;

    async fn for_waiter(&self) -> Result<Self> {
        Ok(Self(self.0.clone()))
    }

    /// Tries until it has the lock.
    async fn acquire(&self, key: &str) -> Result<Self::Guard, String> {
        let lock = self.0.acquire_no_guard(key.as_bytes(), Duration::from_secs(30)).await;
        lock.map_err(|error| anyhow!(error).to_string())
    }

    async fn release(&self, guard: Self::Guard) -> Result<(), String> {
        self.0.unlock(&guard).await;
        Ok(())
    }
}
