//! Listing locks and fence counters, and raising a counter.

use super::records::{Change, Parts, Record};
use super::{Conditional, ConditionalStore};
use crate::backend::LockInventory;
use crate::cancel;
use crate::contract::info::LockInfo;
use crate::inventory::page::{FenceCounter, Page};
use crate::inventory::request::ListRequest;
use crate::value::{Fence, Key, LockError};

#[deny(clippy::missing_trait_methods)]
impl<S: ConditionalStore> LockInventory for Conditional<S> {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        let once = async |attempt| {
            let Page { entries, corrupt, next } =
                self.store().list_locks(&request, &attempt).await?;
            let now = self.store().time().await?.earliest;
            let live = entries.into_iter().filter(|record| record.is_live(now));
            Ok(Page { entries: live.map(Record::into_info).collect(), corrupt, next })
        };
        cancel::read(None, Box::pin(self.attempts().run(once))).await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        let once = async |attempt| self.store().list_counters(&request, &attempt).await;
        cancel::read(None, Box::pin(self.attempts().run(once))).await
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        let once = async |attempt| {
            let counter = self.store().read(&key, Parts::Counter, &attempt).await?.counter?;
            Ok(counter.map(|counter| counter.last))
        };
        let read = cancel::read(None, Box::pin(self.attempts().run(once)));
        read.await.map_err(|error| error.with_key(&key))
    }

    /// Sends one read, and one change if the counter must be raised. The change states the counter that was read. So it is
    /// refused after an acquire in between, and an acquire that has read the counter before is refused after it.
    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        let backend = self.clone();
        let raise = async move {
            let once = async |attempt| {
                let seen = backend.store().read(&key, Parts::Counter, &attempt).await?.counter?;
                if let Some(enough) = seen.as_ref().filter(|seen| seen.last >= at_least) {
                    return Ok(enough.last);
                }
                let change = Change::count(&key, seen.as_ref(), at_least);
                backend.carry_out(change, &attempt).await.map(|()| at_least)
            };
            backend.attempts().run(once).await.map_err(|error| error.with_key(&key))
        };
        cancel::finish(None, raise).await
    }
}
