//! Finding a lock by its id.

use syncguard_core::authoring::{Attempt, Fault, corrupt_record};
use syncguard_core::{Key, LockId, NotHeld};

use crate::inner::Inner;
use crate::record::Held;
use crate::wire::KeyValue;

/// Finds the lock with this id: one read of the hinted key and the index entry, and one more if the lock has another key.
///
/// # Errors
///
/// `Internal` if the index entry or the lock is corrupt. Any content of the hinted key that is not this lock is ignored.
pub(crate) async fn find(
    inner: &Inner,
    lock_id: LockId,
    hint: Option<&Key>,
    attempt: &Attempt,
) -> Result<Result<Held, NotHeld>, Fault> {
    let index = inner.layout.index(lock_id);
    let entry = match hint {
        None => {
            let [entry] = inner.read([&index], attempt).await?;
            entry
        }
        Some(hint) => {
            let name = inner.layout.lock(hint.expose());
            let [lock, entry] = inner.read([&name, &index], attempt).await?;
            match judge(inner, hint, lock_id, lock).await {
                Err(_) | Ok(Err(NotHeld::NotFound)) => entry,
                Ok(found) => return Ok(found),
            }
        }
    };
    let Some(entry) = entry else { return Ok(Err(NotHeld::NotFound)) };
    let key = String::from_utf8(entry.value).ok().and_then(|key| Key::new(key).ok());
    let key = key.ok_or_else(|| corrupt_record(&index, "the index entry is not a key"))?;
    let [lock] = inner.read([&inner.layout.lock(key.expose())], attempt).await?;
    judge(inner, &key, lock_id, lock).await
}

/// Whether the record of this key is the lock with this id.
pub(crate) async fn judge(
    inner: &Inner,
    key: &Key,
    lock_id: LockId,
    stored: Option<KeyValue>,
) -> Result<Result<Held, NotHeld>, Fault> {
    let Some(stored) = stored else { return Ok(Err(NotHeld::NotFound)) };
    let held = Held::read(&inner.layout.lock(key.expose()), key.expose(), stored)?;
    Ok(if held.record.lock_id != lock_id {
        Err(NotHeld::NotFound)
    } else if held.record.is_live(inner.time().await?.earliest) {
        Ok(held)
    } else {
        Err(NotHeld::Expired)
    })
}
