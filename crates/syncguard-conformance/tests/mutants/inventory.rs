//! The network between the inventory and the store.

use syncguard_core::authoring::LockInventory;
use syncguard_core::authoring::cancel;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo};

use crate::mutants::backend::{Backend, travel};
use crate::mutants::flaws::Flaw;

#[deny(clippy::missing_trait_methods)]
impl LockInventory for Backend {
    async fn list_locks(&self, mut request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        travel().await;
        let place = request.expose_place().map(str::to_owned);
        if let Some(mut place) = place {
            if self.has(Flaw::uses_up_cursors) && !self.with(|store, _| store.use_up(&place)) {
                return Ok(Page::new(None));
            }
            if self.has(Flaw::lists_the_last_of_a_page_twice) {
                place.pop();
                request = request.behind(place);
            }
        }
        self.with(|store, now| store.list_locks(&request, now))
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        travel().await;
        self.with(|store, _| store.list_counters(&request))
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        travel().await;
        self.with(|store, _| store.fence_counter(&key))
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        let backend = self.handle();
        cancel::finish(None, async move {
            travel().await;
            if !backend.has(Flaw::a_raise_reads_and_writes_later) {
                return backend.with(|store, _| store.raise(&key, at_least));
            }
            let found = backend.with(|store, _| store.fence_counter(&key))?;
            travel().await;
            let raised = found.unwrap_or(Fence::ZERO).max(at_least);
            backend.with(|store, _| store.set_fence_counter(&key, raised));
            Ok(raised)
        })
        .await
    }
}
