//! The part of the inventory that ticks use.

use syncguard_core::authoring::cancel;
use syncguard_core::inventory::{FenceCounter, ListRequest, LockInventory, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo};
use tokio::time::Instant;

use super::{BOUND, Twin, Ways, unintelligible};
use crate::protocol::{Reply, Request};

#[deny(clippy::missing_trait_methods)]
impl LockInventory for Twin {
    async fn list_locks(&self, _: ListRequest) -> Result<Page<LockInfo>, LockError> {
        Err(LockError::internal("the twins list no locks"))
    }

    async fn list_counters(&self, _: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        Err(LockError::internal("the twins list no counters"))
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        let counter = match &self.0.ways {
            Ways::Served(_) => self.counter(Request::Counter { key }).await?,
            Ways::Firestore(firestore) => firestore.counter(key).await?,
        };
        counter.map(Fence::new).transpose()
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        let (twin, at_least) = (self.clone(), at_least.get());
        cancel::finish(None, async move {
            let counter = match &twin.0.ways {
                Ways::Served(_) => twin.counter(Request::Raise { key, at_least }).await?,
                Ways::Firestore(firestore) => Some(firestore.raise(key, at_least).await?),
            };
            Fence::new(counter.ok_or_else(unintelligible)?)
        })
        .await
    }
}

impl Twin {
    async fn counter(&self, request: Request) -> Result<Option<u64>, LockError> {
        match self.0.wire().ask(request, Instant::now() + BOUND).await? {
            Reply::Counter(counter) => Ok(counter),
            _ => Err(unintelligible()),
        }
    }
}
