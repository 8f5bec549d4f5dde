//! Callers of one key who give different numbers of permits.

use std::time::Duration;

use syncguard::contract::IsLockedRequest;
use syncguard::inventory::ListRequest;
use syncguard::{DynBackend, Key, LockBackend as _, LockError};
use tokio::task::JoinSet;

use crate::exit::Failure;

/// On Redis a listing is a sweep of all keys, so this many permits above the caller's own are looked at instead.
const LOOKED_AT: u32 = 64;

/// No longer than this: the time that was given to wait begins afterwards.
const BOUND: Duration = Duration::from_secs(1);

/// Refuses if somebody has a permit above this number, before anything is locked.
///
/// Who gives a larger number than others is not noticed, and neither is anybody who has a permit that all know.
pub(super) async fn refuse(backend: &DynBackend, key: &Key, permits: u32) -> Result<(), Failure> {
    let held = async {
        if backend.capabilities().backend == "redis" {
            one_by_one(backend, key, permits).await
        } else {
            listed(backend, key, permits).await
        }
    };
    // What cannot be looked at is not refused: whether the store works is said when a permit is asked for.
    match tokio::time::timeout(BOUND, held).await {
        Ok(Ok(Some(slot))) => Err(Failure::usage(format!(
            "permit {slot} is held, and --permits {permits} ends at {}: another caller gives a larger number. Give \
             the same one everywhere, and wait for those who have the larger one; nothing was locked",
            permits - 1
        ))),
        Ok(Ok(None) | Err(_)) | Err(_) => Ok(()),
    }
}

async fn listed(backend: &DynBackend, key: &Key, permits: u32) -> Result<Option<u32>, LockError> {
    let prefix = of_slot(key, "");
    let Some(inventory) = backend.inventory() else { return Ok(None) };
    let request = ListRequest::new().with_prefix(&prefix);
    let mut next = Some(request.with_page_size(ListRequest::MAX_PAGE_SIZE));
    while let Some(request) = next {
        let page = inventory.list_locks(request).await?;
        next = page.next;
        let slots = page.entries.into_iter().filter_map(|lock| {
            let lock = lock.expose();
            lock.key.expose().strip_prefix(&prefix)?.parse::<u32>().ok()
        });
        if let Some(slot) = slots.filter(|slot| *slot >= permits).max() {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

/// All in one flight.
async fn one_by_one(
    backend: &DynBackend,
    key: &Key,
    permits: u32,
) -> Result<Option<u32>, LockError> {
    let mut looks = JoinSet::new();
    for slot in permits..permits + LOOKED_AT {
        let request = IsLockedRequest::new(of_slot(key, &slot.to_string()))?;
        let backend = backend.clone();
        looks.spawn(async move { Ok((slot, backend.is_locked(request).await?)) });
    }
    let looks: Vec<Result<_, LockError>> = looks.join_all().await;
    let looks = looks.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(looks.into_iter().filter(|(_, is_held)| *is_held).map(|(slot, _)| slot).max())
}

/// As the semaphore names its locks.
fn of_slot(key: &Key, slot: &str) -> String {
    format!("{}:permit:{slot}", key.expose())
}
