//! Listings, page by page.

use syncguard::inventory::{Inventory, ListRequest};
use syncguard::{LockBackend, LockError};

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
    let (mut keys, mut corrupt, mut next) = (Vec::new(), 0, Some(request));
    while let Some(request) = next {
        let page = inventory(backend).list_locks(request).await?;
        keys.extend(page.entries.into_iter().map(|lock| lock.expose().key.expose().to_owned()));
        corrupt += page.corrupt.len();
        next = page.next;
    }
    Ok((keys, corrupt))
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
    let (mut keys, mut corrupt, mut next) = (Vec::new(), 0, Some(request));
    while let Some(request) = next {
        let page = inventory(backend).list_counters(request).await?;
        keys.extend(page.entries.iter().map(|counter| counter.key.expose().to_owned()));
        corrupt += page.corrupt.len();
        next = page.next;
    }
    Ok((keys, corrupt))
}
