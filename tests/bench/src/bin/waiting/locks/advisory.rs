//! PostgreSQL's advisory locks: a session for each waiter, and the server's own queue.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use anyhow::Result;
use syncguard_postgres::tokio_postgres::{Client, Statement};

use super::Lock;
use crate::floor::postgres::connect;

pub(crate) struct Advisory {
    client: Client,
    lock: Statement,
    unlock: Statement,
    port: u16,
}

impl Advisory {
    pub(crate) async fn new(port: u16) -> Result<Self> {
        let client = connect(port).await?;
        let lock = client.prepare("SELECT pg_advisory_lock($1)").await?;
        let unlock = client.prepare("SELECT pg_advisory_unlock($1)").await?;
        Ok(Self { client, lock, unlock, port })
    }
}

impl Lock for Advisory {
    /// The number that is locked.
    type Guard = i64;

    async fn for_waiter(&self) -> Result<Self> {
        Self::new(self.port).await
    }

    async fn acquire(&self, key: &str) -> Result<i64, String> {
        // The same in all processes.
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let number = hasher.finish().cast_signed();
        let locked = self.client.query_one(&self.lock, &[&number]).await;
        locked.map(|_| number).map_err(|error| error.to_string())
    }

    async fn release(&self, number: i64) -> Result<(), String> {
        let unlocked = self.client.query_one(&self.unlock, &[&number]).await;
        unlocked.map(drop).map_err(|error| error.to_string())
    }
}
