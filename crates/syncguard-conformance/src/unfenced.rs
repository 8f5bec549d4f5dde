//! Backends that do not fence, in the form that the cases use.

use std::any::Any;

use syncguard_core::authoring::LockInventory;
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, Acquired, FenceToken, LookupRequest,
};
use syncguard_core::inventory::{FenceCounter, Inventory, ListRequest, Page};
use syncguard_core::{DynBackend, Fence, Key, LockBackend, LockError, LockInfo, forward};

/// The backend for the cases. One that does not fence gets a fence that means nothing, and no case looks at it: so the
/// cases are written and compiled for one kind of backend.
pub(crate) fn with_fences<B: LockBackend>(backend: B) -> DynBackend {
    let backend = DynBackend::new(backend);
    match (&backend as &dyn Any).downcast_ref::<DynBackend>() {
        Some(fencing) => fencing.clone(),
        None => DynBackend::new(Unfenced(backend)),
    }
}

#[derive(Clone)]
struct Unfenced<F: FenceToken>(DynBackend<F>);

fn info<F: FenceToken>(info: LockInfo<F>) -> LockInfo {
    let LockInfo { key, lock_id, acquired_at, expires_at, holder, .. } = info;
    LockInfo::new(key, lock_id, acquired_at, expires_at, Fence::ZERO).with_holder(holder)
}

#[deny(clippy::missing_trait_methods)]
impl<F: FenceToken> LockBackend for Unfenced<F> {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        Ok(match self.0.acquire(request).await? {
            AcquireResult::Acquired(lock) => {
                let lock = Acquired::new(lock.lock_id, lock.expires_at, Fence::ZERO);
                AcquireResult::Acquired(lock)
            }
            AcquireResult::Busy(held) => AcquireResult::Busy(held),
            AcquireResult::Refused(refusal) => AcquireResult::Refused(refusal),
        })
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        Ok(self.0.lookup(request).await?.map(info))
    }

    fn inventory(&self) -> Option<Inventory> {
        self.0.inventory().map(|_| Inventory::new(self.clone()))
    }

    forward!(0: release, extend, is_locked, watch, health, capabilities, client_state);
}

/// A store without fences has no counters.
#[deny(clippy::missing_trait_methods)]
impl<F: FenceToken> LockInventory for Unfenced<F> {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        let Some(inventory) = self.0.inventory() else { return Ok(Page::new(None)) };
        let found = inventory.list_locks(request).await?;
        let mut page = Page::new(found.next);
        page.entries = found.entries.into_iter().map(info).collect();
        page.corrupt = found.corrupt;
        Ok(page)
    }

    async fn list_counters(&self, _: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        Ok(Page::new(None))
    }

    async fn fence_counter(&self, _: Key) -> Result<Option<Fence>, LockError> {
        Ok(None)
    }

    async fn raise_counter(&self, _: Key, _: Fence) -> Result<Fence, LockError> {
        Err(LockError::internal("a store without fences has no counters"))
    }
}
