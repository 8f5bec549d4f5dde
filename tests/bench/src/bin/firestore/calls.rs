//! The calls of each operation.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value as Json, json};
use syncguard_firestore::contract::{
    ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_firestore::{FirestoreOptions, LockBackend as _};

use crate::support::{Raw, fresh, request, take};

/// Counts the calls of every operation, with a memory of own locks and without, and prints them.
pub(crate) async fn per_operation() -> Result<Json> {
    println!("\n  {:<34} {:>9} {:>24}", "calls of an operation", "", "remembering nothing");
    let url = fresh();
    let mut counted = Vec::new();
    for remembered in [FirestoreOptions::DEFAULT_REMEMBERED_LOCKS, 0] {
        counted.push(count(&url, FirestoreOptions::new().with_remembered_locks(remembered)).await?);
    }
    let mut table = Vec::new();
    for ((operation, calls), (_, forgetful)) in counted[0].iter().zip(&counted[1]) {
        println!("  {operation:<34} {calls:>9} {forgetful:>24}");
        table.push(json!({
            "operation": operation, "calls": calls, "remembering_nothing": forgetful,
        }));
    }
    Ok(Json::Array(table))
}

async fn count(url: &str, options: FirestoreOptions) -> Result<Vec<(&'static str, u64)>> {
    let raw = Raw::new(url);
    let backend = raw.backend(url, &options);
    let mut counted = Vec::new();
    let lock = take(&backend, "k", 60_000).await;
    counted.push(("acquire", raw.calls()));
    let _ = backend.acquire(request("k", 60_000)).await?;
    counted.push(("acquire of a held key", raw.calls()));
    let _ = backend.extend(ExtendRequest::new(lock.lock_id, Duration::from_secs(60))?).await?;
    counted.push(("extend", raw.calls()));
    backend.is_locked(IsLockedRequest::new("k")?).await?;
    counted.push(("is_locked", raw.calls()));
    backend.lookup(LookupRequest::by_key("k")?).await?;
    counted.push(("lookup by key", raw.calls()));
    backend.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?;
    counted.push(("lookup by lock id", raw.calls()));
    let _ = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
    counted.push(("release", raw.calls()));
    Ok(counted)
}
