//! Looking over all locks.

use syncguard_core::authoring::cancel;
use syncguard_core::inventory::{
    CounterPage, CounterRequest, Cursor, FenceCounter, ListRequest, LockInventory, LockPage,
    RaiseRequest,
};
use syncguard_core::{Fence, Key, LockError};

use crate::backend::MemoryBackend;

/// A page looks at every lock, or every counter, there is. Meanwhile others wait.
#[deny(clippy::missing_trait_methods)]
impl LockInventory for MemoryBackend {
    async fn list_locks(&self, request: ListRequest) -> Result<LockPage, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        self.with(|store| {
            let now = self.now()?;
            let (locks, next) = page(store.live(now), &request);
            let locks = locks.into_iter().filter_map(|(key, held)| held.live_info(key, now));
            Ok(LockPage::new(locks.collect(), Vec::new(), next))
        })
    }

    async fn list_counters(&self, request: ListRequest) -> Result<CounterPage, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        self.with(|store| {
            let (counters, next) = page(store.counters(), &request);
            let counters =
                counters.into_iter().map(|(key, last)| FenceCounter::new(key.clone(), *last));
            Ok(CounterPage::new(counters.collect(), Vec::new(), next))
        })
    }

    async fn fence_counter(&self, request: CounterRequest) -> Result<Option<Fence>, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        self.with(|store| Ok(store.fence(&request.key)))
    }

    async fn raise_counter(&self, request: RaiseRequest) -> Result<Fence, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        self.with(|store| Ok(store.raise_fence(request.key, request.at_least)))
    }
}

/// The entries of a page in the order of their keys, and where the next one begins.
fn page<'s, V>(
    entries: impl Iterator<Item = (&'s Key, V)>,
    request: &ListRequest,
) -> (Vec<(&'s Key, V)>, Option<Cursor>) {
    let (place, size) = (request.expose_place(), request.page_size);
    let wanted = |key: &Key| key.expose() > place && request.prefix.is_of(key.expose());
    let mut page: Vec<_> = entries.filter(|(key, _)| wanted(key)).collect();
    let more = page.len() > size;
    if more {
        page.select_nth_unstable_by_key(size, |(key, _)| *key);
        page.truncate(size);
    }
    page.sort_unstable_by_key(|(key, _)| *key);
    let last = page.last().filter(|_| more);
    let next = last.map(|(key, _)| Cursor::behind(key.expose()));
    (page, next)
}
