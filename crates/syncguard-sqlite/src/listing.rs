//! Listing locks and fence counters.

use std::sync::Arc;

use syncguard_core::authoring::LockInventory;
use syncguard_core::authoring::cancel::{self, Caller};
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo};

use crate::backend::SqliteBackend;
use crate::clock::Moment;
use crate::error::Failure;
use crate::operation::Operation;
use crate::store::Store;

/// A page is one read of the file, along the primary key. It blocks no other process from writing; other
/// operations of this backend wait for it.
#[deny(clippy::missing_trait_methods)]
impl LockInventory for SqliteBackend {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        cancel::read(None, self.inner().run(ListLocks(request), Caller::new(None))).await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        cancel::read(None, self.inner().run(ListCounters(request), Caller::new(None))).await
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        let read = self.inner().run(ReadCounter(key.clone()), Caller::new(None));
        cancel::read(None, read).await.map_err(|error| error.with_key(&key))
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        let (inner, caller) = (Arc::clone(self.inner()), Caller::new(None));
        cancel::finish(None, async move {
            let result = inner.run(RaiseCounter(key.clone(), at_least), caller).await;
            result.map_err(|error| error.with_key(&key))
        })
        .await
    }
}

struct ListLocks(ListRequest);

impl Operation for ListLocks {
    type Output = Page<LockInfo>;

    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<Page<LockInfo>>, Failure> {
        self.write(store, now).map(Some)
    }

    fn write(&self, store: Store<'_>, now: &Moment) -> Result<Page<LockInfo>, Failure> {
        store.locks(&self.0, now)
    }
}

struct ListCounters(ListRequest);

impl Operation for ListCounters {
    type Output = Page<FenceCounter>;

    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<Page<FenceCounter>>, Failure> {
        self.write(store, now).map(Some)
    }

    fn write(&self, store: Store<'_>, _: &Moment) -> Result<Page<FenceCounter>, Failure> {
        store.counters(&self.0)
    }
}

struct ReadCounter(Key);

impl Operation for ReadCounter {
    type Output = Option<Fence>;

    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<Self::Output>, Failure> {
        self.write(store, now).map(Some)
    }

    fn write(&self, store: Store<'_>, _: &Moment) -> Result<Self::Output, Failure> {
        store.counter(&self.0)
    }
}

struct RaiseCounter(Key, Fence);

impl Operation for RaiseCounter {
    type Output = Fence;

    const RUNS_WITHOUT_CALLER: bool = true;

    /// A counter never falls, so a counter that is high enough needs no change.
    fn read(&self, store: Store<'_>, _: &Moment) -> Result<Option<Fence>, Failure> {
        Ok(store.counter(&self.0)?.filter(|last| *last >= self.1))
    }

    fn write(&self, store: Store<'_>, now: &Moment) -> Result<Fence, Failure> {
        if let Some(last) = self.read(store, now)? {
            return Ok(last);
        }
        store.set_counter(&self.0, self.1)?;
        Ok(self.1)
    }
}
