//! The permits of semaphores among the locks of a store.

use syncguard::contract::LookupRequest;
use syncguard::{DynBackend, Key, LockBackend as _, LockInfo};
use tokio::task::JoinSet;

use super::listing;
use super::lock_key::key_of;
use crate::exit::Failure;
use crate::permit_key::{INFIX, MAX_PERMITS, split};

/// The number of permits that are looked up at once on Redis, where a listing would scan all keys.
const PROBED_ON_REDIS: u32 = 64;

/// The held permits of the semaphore with this key, from this number on, by number.
///
/// On Redis, 64 permits are looked up at once, for as long as at least one of them is held: a
/// permit that is more than 64 above the others is not found.
pub(crate) async fn held_from(
    first: u32,
    backend: &DynBackend,
    key: &Key,
) -> Result<Vec<(u32, LockInfo)>, Failure> {
    let prefix = format!("{}{INFIX}", key.expose());
    if prefix.len() + MAX_PERMITS.to_string().len() > Key::MAX_LENGTH_BYTES {
        // No semaphore may have a key of this length.
        return Ok(Vec::new());
    }
    let mut held = if backend.capabilities().backend == "redis" {
        find_by_probing(first, backend, &prefix).await?
    } else {
        find_by_listing(backend, &prefix).await?
    };
    held.retain(|(permit, _)| *permit >= first);
    held.sort_by_key(|(permit, _)| *permit);
    Ok(held)
}

async fn find_by_listing(
    backend: &DynBackend,
    prefix: &str,
) -> Result<Vec<(u32, LockInfo)>, Failure> {
    let locks = listing::read(backend, prefix).await?.locks;
    let permits = locks.into_iter().filter_map(|info| {
        let key = key_of(&info);
        let (semaphore, permit) = split(&key)?;
        // Longer keys with the same prefix belong to other semaphores.
        (semaphore.len() + INFIX.len() == prefix.len()).then_some((permit, info))
    });
    Ok(permits.collect())
}

async fn find_by_probing(
    first: u32,
    backend: &DynBackend,
    prefix: &str,
) -> Result<Vec<(u32, LockInfo)>, Failure> {
    let mut held = Vec::new();
    for first in (first..MAX_PERMITS).step_by(PROBED_ON_REDIS as usize) {
        let mut probes = JoinSet::new();
        for permit in first..MAX_PERMITS.min(first + PROBED_ON_REDIS) {
            let request = LookupRequest::by_key(format!("{prefix}{permit}"))?;
            let backend = backend.clone();
            probes.spawn(async move { (permit, backend.lookup(request).await) });
        }
        let before = held.len();
        for (permit, found) in probes.join_all().await {
            held.extend(found?.map(|info| (permit, info)));
        }
        if held.len() == before {
            break;
        }
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use syncguard::acquire;

    use super::*;

    /// The last permits of two probes.
    #[tokio::test]
    async fn each_permit_is_looked_up() {
        let backend = syncguard::connect("memory:").await.unwrap();
        let _sixty_third = acquire(&backend, "k:permit:63").await.unwrap();
        let _after_it = acquire(&backend, "k:permit:127").await.unwrap();
        let mut found = find_by_probing(0, &backend, "k:permit:").await.unwrap();
        found.sort_by_key(|(permit, _)| *permit);
        assert_eq!(found.iter().map(|(permit, _)| *permit).collect::<Vec<_>>(), [63, 127]);
    }
}
