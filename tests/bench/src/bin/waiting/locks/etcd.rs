//! etcd's lock, with a lease for each waiter.

use anyhow::Result;
use etcd_client::{Client, LockOptions};

use super::Lock;

pub(crate) struct Etcd {
    client: Client,
    lease: i64,
}

impl Etcd {
    pub(crate) async fn new(url: &str) -> Result<Self> {
        Self::with(Client::connect([url], None).await?).await
    }

    /// Longer than any row takes.
    async fn with(client: Client) -> Result<Self> {
        const SECONDS: i64 = 120;
        let lease = client.lease_client().grant(SECONDS, None).await?.id();
        Ok(Self { client, lease })
    }
}

impl Lock for Etcd {
    /// The key that owns the lock.
    type Guard = Vec<u8>;

    async fn for_waiter(&self) -> Result<Self> {
        Self::with(self.client.clone()).await
    }

    async fn acquire(&self, key: &str) -> Result<Vec<u8>, String> {
        let options = LockOptions::new().with_lease(self.lease);
        let locked = self.client.lock_client().lock(key, Some(options)).await;
        locked.map(|answer| answer.key().to_vec()).map_err(|error| error.to_string())
    }

    async fn release(&self, owner: Vec<u8>) -> Result<(), String> {
        let unlocked = self.client.lock_client().unlock(owner).await;
        unlocked.map(drop).map_err(|error| error.to_string())
    }
}
