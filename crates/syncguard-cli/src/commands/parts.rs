//! The permits of semaphores, and the gate and slots of readers and writers, among the locks of a store.

use syncguard::contract::LookupRequest;
use syncguard::{DynBackend, Key, LockBackend as _, LockInfo};
use tokio::task::JoinSet;

use super::listing;
use super::lock_key::key_of;
use crate::exit::Failure;
use crate::part_key::{MAX_PERMITS, MAX_SLOTS, PERMITS, Part, SHARED, split};

/// The number of permits that are looked up at once on Redis, where a listing would scan all keys.
const PROBED_ON_REDIS: u32 = 64;

/// The held parts of the recipes with this key: the gate, the slots, and the permits.
pub(super) async fn held(
    backend: &DynBackend,
    key: &Key,
) -> Result<Vec<(Part, LockInfo)>, Failure> {
    let mut held = if backend.capabilities().backend == "redis" {
        let parts = (0..MAX_SLOTS).map(Part::Slot).chain([Part::Gate]);
        probe(backend, key, SHARED, parts).await?
    } else {
        list(backend, key, SHARED).await?
    };
    held.extend(
        permits_from(0, backend, key).await?.into_iter().map(|(n, info)| (Part::Permit(n), info)),
    );
    held.sort_by_key(|(part, _)| *part);
    Ok(held)
}

/// The held permits of the semaphore with this key, from this number on, by number.
///
/// On Redis, 64 permits are looked up at once, for as long as at least one of them is held: a
/// permit that is more than 64 above the others is not found.
pub(crate) async fn permits_from(
    first: u32,
    backend: &DynBackend,
    key: &Key,
) -> Result<Vec<(u32, LockInfo)>, Failure> {
    let held = if backend.capabilities().backend == "redis" {
        find_by_probing(first, backend, key).await?
    } else {
        list(backend, key, PERMITS).await?
    };
    let permits = held.into_iter().filter_map(|(part, info)| match part {
        Part::Permit(permit) if permit >= first => Some((permit, info)),
        _ => None,
    });
    let mut permits: Vec<_> = permits.collect();
    permits.sort_by_key(|(permit, _)| *permit);
    Ok(permits)
}

/// How many parts are held, in words; `None` for none. A writer holds the gate and all slots, a reader one slot.
pub(super) fn summary(parts: &[(Part, LockInfo)]) -> Option<String> {
    let count = |is_it: fn(Part) -> bool| parts.iter().filter(|(part, _)| is_it(*part)).count();
    let counted = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        count => Some(format!("{count} {what}s")),
    };
    let said = |what: Option<String>, whose: &str| {
        let what = what?;
        let verb = if what.starts_with("1 ") || what == "the gate" { "is" } else { "are" };
        Some(format!("{what} of the {whose} with this key {verb} held"))
    };
    let has_gate = count(|part| part == Part::Gate) > 0;
    let slots = counted(count(|part| matches!(part, Part::Slot(_))), "slot");
    let shared = match (has_gate, slots) {
        (true, Some(slots)) => Some(format!("the gate and {slots}")),
        (true, None) => Some("the gate".to_owned()),
        (false, slots) => slots,
    };
    let permits = counted(count(|part| matches!(part, Part::Permit(_))), "permit");
    let lines = [said(shared, "readers and writers"), said(permits, "semaphore")];
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The locks of parts whose keys go on with this text.
async fn list(
    backend: &DynBackend,
    key: &Key,
    infix: &str,
) -> Result<Vec<(Part, LockInfo)>, Failure> {
    let Some(prefix) = prefix(key, infix) else { return Ok(Vec::new()) };
    let locks = listing::read(backend, &prefix).await?.locks;
    let parts = locks.into_iter().filter_map(|info| {
        let name = key_of(&info);
        let (recipe, part) = split(&name)?;
        // Longer keys with the same prefix belong to other recipes.
        (recipe == key.expose()).then_some((part, info))
    });
    Ok(parts.collect())
}

/// The beginning of the keys of the parts. No recipe may have a key that is too long for it.
fn prefix(key: &Key, infix: &str) -> Option<String> {
    let prefix = format!("{}{infix}", key.expose());
    (prefix.len() + MAX_PERMITS.to_string().len() <= Key::MAX_LENGTH_BYTES).then_some(prefix)
}

async fn find_by_probing(
    first: u32,
    backend: &DynBackend,
    key: &Key,
) -> Result<Vec<(Part, LockInfo)>, Failure> {
    let mut held = Vec::new();
    for first in (first..MAX_PERMITS).step_by(PROBED_ON_REDIS as usize) {
        let numbers = first..MAX_PERMITS.min(first + PROBED_ON_REDIS);
        let found = probe(backend, key, PERMITS, numbers.map(Part::Permit)).await?;
        if found.is_empty() {
            break;
        }
        held.extend(found);
    }
    Ok(held)
}

/// Looks all of these parts up at once.
async fn probe(
    backend: &DynBackend,
    key: &Key,
    infix: &str,
    parts: impl Iterator<Item = Part>,
) -> Result<Vec<(Part, LockInfo)>, Failure> {
    let Some(prefix) = prefix(key, infix) else { return Ok(Vec::new()) };
    let mut probes = JoinSet::new();
    for part in parts {
        let request = LookupRequest::by_key(match part {
            Part::Gate => format!("{prefix}gate"),
            Part::Slot(number) | Part::Permit(number) => format!("{prefix}{number}"),
        })?;
        let backend = backend.clone();
        probes.spawn(async move { (part, backend.lookup(request).await) });
    }
    let mut held = Vec::new();
    for (part, found) in probes.join_all().await {
        held.extend(found?.map(|info| (part, info)));
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
        let mut found = find_by_probing(0, &backend, &Key::new("k").unwrap()).await.unwrap();
        found.sort_by_key(|(part, _)| *part);
        let parts: Vec<Part> = found.iter().map(|(part, _)| *part).collect();
        assert_eq!(parts, [Part::Permit(63), Part::Permit(127)]);
    }
}
