//! Listings, page by page.

use syncguard::inventory::{FenceCounter, Inventory, ListRequest, Page};
use syncguard::{LockBackend, LockError, LockInfo};

/// The inventory of a backend that has one.
///
/// # Panics
///
/// If it has none.
pub fn inventory<B: LockBackend>(backend: &B) -> Inventory<B::Fence> {
    backend.inventory().expect("an inventory")
}

/// The keys of the locks on all pages, and the number of corrupt records.
///
/// # Errors
///
/// The error of the listing.
pub async fn locks<B: LockBackend>(
    backend: &B,
    request: ListRequest,
) -> Result<(Vec<String>, usize), LockError> {
    let listed = inventory(backend);
    let key = |lock: LockInfo<B::Fence>| lock.key.expose().to_owned();
    all(request, async |request| listed.list_locks(request).await, key).await
}

/// The keys of the counters on all pages, and the number of corrupt records.
///
/// # Errors
///
/// The error of the listing.
pub async fn counters<B: LockBackend>(
    backend: &B,
    request: ListRequest,
) -> Result<(Vec<String>, usize), LockError> {
    let listed = inventory(backend);
    let key = |counter: FenceCounter| counter.key.expose().to_owned();
    all(request, async |request| listed.list_counters(request).await, key).await
}

async fn all<T>(
    request: ListRequest,
    page: impl AsyncFn(ListRequest) -> Result<Page<T>, LockError>,
    key: impl Fn(T) -> String,
) -> Result<(Vec<String>, usize), LockError> {
    let (mut keys, mut corrupt, mut next) = (Vec::new(), 0, Some(request));
    while let Some(request) = next {
        let page = page(request).await?;
        keys.extend(page.entries.into_iter().map(&key));
        corrupt += page.corrupt.len();
        next = page.next;
    }
    Ok((keys, corrupt))
}
