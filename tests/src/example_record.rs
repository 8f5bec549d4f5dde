//! The lock of `vectors/records.json`, whose records the page `vectors/records.md` shows.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value as Json;
use syncguard::contract::{AcquireRequest, Acquired, Holder};
use syncguard::{Fence, LockBackend, LockId, Ttl};

/// The vectors: the lock, and under `stored` its records in each store.
///
/// # Errors
///
/// Fails if the file is no JSON.
pub fn vectors() -> Result<Json> {
    let text = include_str!("../../crates/syncguard-core/vectors/records.json");
    Ok(serde_json::from_str(text)?)
}

/// A text of the lock.
///
/// # Errors
///
/// Fails if there is no such text.
pub fn text<'a>(vectors: &'a Json, field: &str) -> Result<&'a str> {
    vectors[field].as_str().with_context(|| format!("no text {field}"))
}

/// A number of the lock.
///
/// # Errors
///
/// Fails if there is no such number.
pub fn number(vectors: &Json, field: &str) -> Result<u64> {
    vectors[field].as_u64().with_context(|| format!("no number {field}"))
}

/// Takes the lock of the vectors, after the acquisitions that its fence counts.
///
/// # Errors
///
/// The errors of the store, and one if the lock is not free or has another fence.
pub async fn take<B: LockBackend<Fence = Fence>>(backend: &B) -> Result<Acquired> {
    let vectors = vectors()?;
    let (key, fence) = (text(&vectors, "key")?, text(&vectors, "fence")?.parse::<Fence>()?);
    let before = Fence::new(fence.get() - 1)?;
    backend.inventory().context("an inventory")?.raise_counter(key, before).await?;
    let holder = Holder::new(text(&vectors, "holder")?)?.with_note(text(&vectors, "note")?)?;
    let request = AcquireRequest::new(key, Ttl::from_millis(number(&vectors, "ttlMs")?)?)?
        .with_lock_id(LockId::new(text(&vectors, "lockId")?)?)
        .with_holder(holder);
    let acquired = backend.acquire(request).await?.acquired().context("a free key")?;
    ensure!(acquired.fence == fence, "{acquired:?}");
    Ok(acquired)
}

/// The records in a store, as if the lock of the vectors had this expiry.
///
/// # Errors
///
/// Fails if the vectors lack the store.
pub fn stored(store: &str, acquired: &Acquired) -> Result<Json> {
    let vectors = vectors()?;
    let expires_at = acquired.expires_at.as_millis();
    let mut text = serde_json::to_string(vectors["stored"].get(store).context("a store")?)?;
    for (field, now) in
        [("acquiredAtMs", expires_at - number(&vectors, "ttlMs")?), ("expiresAtMs", expires_at)]
    {
        text = text.replace(&number(&vectors, field)?.to_string(), &now.to_string());
    }
    Ok(serde_json::from_str(&text)?)
}
