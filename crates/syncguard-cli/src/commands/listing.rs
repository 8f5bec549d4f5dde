//! All live locks of a store, page by page.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use syncguard::contract::HashId;
use syncguard::inventory::{Inventory, ListRequest};
use syncguard::{DynBackend, LockBackend as _, LockInfo};

use crate::exit::Failure;
use crate::time::{human, since, until};
use crate::unseen;

/// What was found.
pub(super) struct Listing {
    /// In the order of the keys.
    pub(super) locks: Vec<LockInfo>,
    /// Records that make no sense.
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

/// The inventory of a store; each store that the command can connect to has one.
pub(crate) fn inventory(backend: &DynBackend) -> Result<Inventory, Failure> {
    backend.inventory().ok_or_else(|| Failure::usage("this store cannot list its locks"))
}

/// The key as it was given. It is what the user has asked to see.
pub(super) fn key_of(info: &LockInfo) -> String {
    info.clone().expose().key.expose().to_owned()
}

/// A key for a line of a terminal: a character that could do anything there, or hide, is escaped.
pub(super) fn shown_key(info: &LockInfo) -> String {
    unseen::for_people(&key_of(info))
}

/// What programs read of a lock, without its lock id.
pub(super) fn as_json(info: &LockInfo) -> Value {
    json!({
        "key": key_of(info),
        "keyHash": info.key_hash().to_string(),
        "lockIdHash": info.lock_id_hash().to_string(),
        "fence": info.fence.to_string(),
        "acquiredAtMs": info.acquired_at.as_millis(),
        "expiresAtMs": info.expires_at.as_millis(),
    })
}

/// What a table says of a lock.
pub(super) fn row(info: &LockInfo) -> [String; 5] {
    [
        // Enough to tell holders apart, and a line of 80 columns has room for the key.
        info.lock_id_hash().to_string().chars().take(12).collect(),
        info.fence.to_string(),
        human(since(info.acquired_at)),
        human(until(info.expires_at)),
        // The last one, since it can be so long that it is cut or wrapped.
        shown_key(info),
    ]
}

pub(super) const HEADER: [&str; 5] = ["HOLDER", "FENCE", "AGE", "LEFT", "KEY"];

/// What is to be said of records that make no sense.
pub(super) fn complaint(corrupt: &[HashId]) -> Option<String> {
    let first = corrupt.first()?;
    Some(format!(
        "records that make no sense: {}, the first with the hash {first}; such a lock never gets free",
        corrupt.len()
    ))
}
