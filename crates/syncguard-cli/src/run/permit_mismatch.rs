//! Detects callers of one key that give different numbers of permits.

use std::time::Duration;

use syncguard::contract::IsLockedRequest;
use syncguard::inventory::ListRequest;
use syncguard::{DynBackend, Key, LockBackend as _, LockError};
use tokio::task::JoinSet;

use crate::exit::Failure;
use crate::permit_key::{INFIX, MAX_PERMITS, split};

/// The number of permits above the caller's own that are checked on Redis, where a listing would
/// scan all keys.
const CHECKED_ON_REDIS: u32 = 64;

/// The longest time for the check. The time to wait for a permit begins afterwards.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Fails if a rival holds a permit above this number. Runs before anything is locked.
///
/// A caller that gives a larger number than its rivals is not detected, nor are rivals that hold
/// lower permits only.
pub(super) async fn check(backend: &DynBackend, key: &Key, permits: u32) -> Result<(), Failure> {
    let held = async {
        if backend.capabilities().backend == "redis" {
            find_by_probing(backend, key, permits).await
        } else {
            find_by_listing(backend, key, permits).await
        }
    };
    // A failed check refuses nothing: if the store does not work, the acquire reports it.
    match tokio::time::timeout(TIME_LIMIT, held).await {
        Ok(Ok(Some(slot))) => Err(Failure::usage(format!(
            "permit {slot} is held, and --permits {permits} ends at {}: another caller gives a larger number, or has \
             locked that permit's key, KEY{INFIX}{slot}, by itself. Give the same number everywhere, and wait until the \
             callers with the larger number have ended; nothing was locked",
            permits - 1
        ))),
        Ok(Ok(None) | Err(_)) | Err(_) => Ok(()),
    }
}

async fn find_by_listing(
    backend: &DynBackend,
    key: &Key,
    permits: u32,
) -> Result<Option<u32>, LockError> {
    let prefix = slot_key(key, "");
    let Some(inventory) = backend.inventory() else { return Ok(None) };
    let request = ListRequest::new().with_prefix(&prefix);
    let mut next = Some(request.with_page_size(ListRequest::MAX_PAGE_SIZE));
    while let Some(request) = next {
        let page = inventory.list_locks(request).await?;
        next = page.next;
        let slots = page.entries.into_iter().filter_map(|lock| {
            let lock = lock.expose();
            let (semaphore, slot) = split(lock.key.expose())?;
            // Longer keys with the same prefix belong to other semaphores.
            (semaphore.len() + INFIX.len() == prefix.len()).then_some(slot)
        });
        if let Some(slot) = slots.filter(|slot| *slot >= permits).max() {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

/// Sends all requests at once.
async fn find_by_probing(
    backend: &DynBackend,
    key: &Key,
    permits: u32,
) -> Result<Option<u32>, LockError> {
    let mut probes = JoinSet::new();
    for slot in permits..MAX_PERMITS.min(permits + CHECKED_ON_REDIS) {
        let request = IsLockedRequest::new(slot_key(key, &slot.to_string()))?;
        let backend = backend.clone();
        probes.spawn(async move { Ok((slot, backend.is_locked(request).await?)) });
    }
    let probes: Vec<Result<_, LockError>> = probes.join_all().await;
    let probes = probes.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(probes.into_iter().filter(|(_, is_held)| *is_held).map(|(slot, _)| slot).max())
}

/// The key of one permit's lock, as the semaphore names it.
fn slot_key(key: &Key, slot: &str) -> String {
    format!("{}{INFIX}{slot}", key.expose())
}
