//! Reads the held locks of a store, and formats them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use syncguard::contract::HashId;
use syncguard::inventory::{FenceCounter, Inventory, ListRequest};
use syncguard::{DynBackend, LockBackend as _, LockInfo};

use super::lock_key::{key_for_terminal, key_of};
use super::recipe;
use crate::exit::Failure;
use crate::holder;
use crate::table::table;
use crate::time::{human, since, until};

/// The held locks of a store.
pub(super) struct Listing {
    /// Sorted by key.
    pub(super) locks: Vec<LockInfo>,
    /// The hashes of corrupt records.
    pub(super) corrupt: Vec<HashId>,
}

/// Reads all pages.
pub(super) async fn read(backend: &DynBackend, prefix: &str) -> Result<Listing, Failure> {
    let inventory = inventory(backend)?;
    let request = ListRequest::new().with_prefix(prefix);
    let mut next = Some(request.with_page_size(ListRequest::MAX_PAGE_SIZE));
    let (mut locks, mut corrupt) = (BTreeMap::new(), Vec::new());
    while let Some(request) = next {
        let page = inventory.list_locks(request).await?;
        for info in page.entries {
            locks.insert(key_of(&info), info);
        }
        corrupt.extend(page.corrupt);
        next = page.next;
    }
    Ok(Listing { locks: locks.into_values().collect(), corrupt })
}

/// Reads all pages of counters, and returns the hashes of corrupt ones. On Redis a scan may show a counter twice.
pub(super) async fn counters(
    backend: &DynBackend,
    mut take: impl FnMut(FenceCounter),
) -> Result<Vec<HashId>, Failure> {
    let inventory = inventory(backend)?;
    let mut next = Some(ListRequest::new().with_page_size(ListRequest::MAX_PAGE_SIZE));
    let mut corrupt = Vec::new();
    while let Some(request) = next {
        let page = inventory.list_counters(request).await?;
        page.entries.into_iter().for_each(&mut take);
        corrupt.extend(page.corrupt);
        next = page.next;
    }
    Ok(corrupt)
}

/// The prefix that an argument means: a `*` at its end is understood, as people type it.
pub(super) fn prefix(argument: &str) -> Result<&str, Failure> {
    let prefix = argument.strip_suffix('*').unwrap_or(argument);
    let has_class = prefix.split_once('[').is_some_and(|(_, rest)| rest.contains(']'));
    if prefix.contains(['*', '?']) || has_class {
        return Err(Failure::usage(
            "of patterns, only a * at the end is understood: 'pay*' and 'pay' both mean the keys that begin with pay. \
             Give the part before the first *, ? or [, and filter the rest with grep",
        ));
    }
    Ok(prefix)
}

/// The inventory of a store. All stores that the command connects to have one.
pub(crate) fn inventory(backend: &DynBackend) -> Result<Inventory, Failure> {
    backend.inventory().ok_or_else(|| Failure::usage("this store cannot list its locks"))
}

/// The lock id in clear text: only for a user who has asked to see it.
pub(super) fn lock_id_of(info: &LockInfo) -> String {
    info.lock_id.expose().to_string()
}

/// The JSON of a lock, with its lock id if the user has asked to see it.
pub(super) fn as_json(info: &LockInfo, reveals: bool) -> Value {
    let mut json = json!({
        "key": key_of(info),
        "keyHash": info.key.hash_id().to_string(),
        "lockIdHash": info.lock_id.hash_id().to_string(),
        "fence": info.fence.to_string(),
        "acquiredAtMs": info.acquired_at.as_millis(),
        "expiresAtMs": info.expires_at.as_millis(),
    });
    holder::add_to_json(&mut json, info);
    if let Some(recipe) = recipe::name(info) {
        json["recipe"] = json!(recipe);
    }
    if reveals {
        json["lockId"] = json!(lock_id_of(info));
    }
    json
}

/// The title of a column, and its text for a lock.
type Column = (&'static str, fn(&LockInfo) -> String);

/// The columns of a table of locks. The key is last, since it can be so long that it is cut or wrapped.
const COLUMNS: [Column; 6] = [
    ("HOLDER", holder::name),
    ("FENCE", |info| info.fence.to_string()),
    ("AGE", |info| human(since(info.acquired_at))),
    ("LEFT", |info| human(until(info.expires_at))),
    ("RECIPE", |info| recipe::name(info).unwrap_or("-").to_owned()),
    ("KEY", key_for_terminal),
];

/// The locks as a table without these columns.
pub(super) fn as_table(locks: &[LockInfo], left_out: &[&str]) -> String {
    let columns = || COLUMNS.iter().filter(|(title, _)| !left_out.contains(title));
    let header: Vec<&str> = columns().map(|(title, _)| *title).collect();
    table(&header, locks.iter().map(|info| columns().map(|(_, text)| text(info)).collect()))
}

/// The message about corrupt records, if there are any.
pub(super) fn corrupt_message(corrupt: &[HashId]) -> Option<String> {
    let first = corrupt.first()?;
    Some(format!(
        "corrupt records: {}, the first with the hash {first}; such a lock never becomes free",
        corrupt.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::prefix;

    #[test]
    fn a_star_at_the_end_is_understood_and_other_patterns_are_refused() {
        for (argument, expected) in [
            ("", ""),
            ("pay", "pay"),
            ("pay*", "pay"),
            ("*", ""),
            ("job[", "job["),
            ("a]b[", "a]b["),
        ] {
            assert_eq!(prefix(argument).ok(), Some(expected), "{argument}");
        }
        for argument in ["pay*today", "*pay", "pa?", "pay**", "job[0-9]*"] {
            assert!(prefix(argument).is_err(), "{argument}");
        }
    }
}
