//! Listing locks and fence counters.

use syncguard_core::authoring::LockInventory;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockInfo};

use crate::backend::MemoryBackend;

/// Each page scans all locks or all counters. Other operations wait meanwhile.
#[deny(clippy::missing_trait_methods)]
impl LockInventory for MemoryBackend {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        self.with(|store| {
            let now = self.now()?;
            let (locks, next) = page(store.live(now), &request);
            let mut page = Page::new(next);
            let locks = locks.into_iter().filter_map(|(key, held)| held.live_info(key, now));
            page.entries.extend(locks);
            Ok(page)
        })
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        self.with(|store| {
            let (counters, next) = page(store.counters(), &request);
            let mut page = Page::new(next);
            let counters = counters.into_iter();
            page.entries.extend(counters.map(|(key, last)| FenceCounter::new(key.clone(), *last)));
            Ok(page)
        })
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        self.with(|store| Ok(store.fence(&key)))
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        self.with(|store| Ok(store.raise_fence(key, at_least)))
    }
}

/// Returns the entries of a page in the order of their keys, and the request for the next page.
fn page<'s, V>(
    entries: impl Iterator<Item = (&'s Key, V)>,
    request: &ListRequest,
) -> (Vec<(&'s Key, V)>, Option<ListRequest>) {
    let (place, size) = (request.expose_place().unwrap_or_default(), request.page_size());
    let wanted = |key: &Key| key.expose() > place && request.includes(key.expose());
    let mut page: Vec<_> = entries.filter(|(key, _)| wanted(key)).collect();
    let more = page.len() > size;
    if more {
        page.select_nth_unstable_by_key(size, |(key, _)| *key);
        page.truncate(size);
    }
    page.sort_unstable_by_key(|(key, _)| *key);
    let last = page.last().filter(|_| more);
    let next = last.map(|(key, _)| request.behind(key.expose()));
    (page, next)
}
