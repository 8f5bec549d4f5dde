//! Finding a lock by its id, and handling several locks with one id.

use std::sync::Arc;

use syncguard_core::authoring::{Attempt, Fault};
use syncguard_core::{Key, LockError, LockId, NotHeld, Timestamp};

use crate::document::{Record, Version, delete};
use crate::inner::Inner;
use crate::query;

/// The documents that the store has under a lock id.
pub(crate) struct Held {
    pub(crate) lock: Result<Record, NotHeld>,
    /// Expired documents with the same lock id.
    duplicates: Vec<Version>,
}

/// Finds the lock with this id: one read of the hinted key, then one query if the lock is not there.
///
/// # Errors
///
/// `Internal` if one of the documents is corrupt, or if two of them are live. It is then unclear which
/// lock the caller means, so neither is touched.
pub(crate) async fn find(
    inner: &Inner,
    lock_id: LockId,
    hint: Option<&Key>,
    attempt: &Attempt,
) -> Result<Held, Fault> {
    if let Some(hint) = hint
        && let Some(lock) = under_hint(inner, lock_id, hint, attempt).await?
    {
        return Ok(Held { lock: Ok(lock), duplicates: Vec::new() });
    }
    // The query has no limit, so that several documents with one id are noticed.
    let (parent, collection) = inner.layout.lock_parent();
    let query = query::by_lock_id(collection, lock_id);
    let documents = inner.client.query(parent, query, attempt.call_deadline()).await?;
    let now = inner.time()?.earliest;
    let records = documents.into_iter().map(Record::read).collect::<Result<Vec<_>, _>>()?;
    Ok(choose(records, lock_id, now)?)
}

/// Returns the live lock with this id if its key is the hint. Any other content of the hinted document is
/// ignored and no error.
async fn under_hint(
    inner: &Inner,
    lock_id: LockId,
    hint: &Key,
    attempt: &Attempt,
) -> Result<Option<Record>, Fault> {
    let Ok(name) = inner.layout.lock_name(hint) else { return Ok(None) };
    let [lock] = inner.read([&*name], attempt).await?;
    let now = inner.time()?.earliest;
    let lock = lock.and_then(|lock| Record::read(lock).ok());
    Ok(lock.filter(|lock| lock.lock_id == lock_id && lock.is_live(now)))
}

fn choose(mut records: Vec<Record>, lock_id: LockId, now: Timestamp) -> Result<Held, LockError> {
    // The query asks only for this id. Check the id again, because a lock of another holder must never be released.
    records.retain(|record| record.lock_id == lock_id);
    let found = records.len();
    let (mut live, expired): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|record| record.is_live(now));
    if found > 1 {
        tracing::warn!(
            lock_id_hash = %lock_id.hash_id(),
            found,
            live = live.len(),
            "several lock documents carry one lock id"
        );
    }
    if live.len() > 1 {
        return Err(LockError::internal(
            "two live locks carry this lock id; none of them was touched",
        ));
    }
    let reason = if found == 0 { NotHeld::NotFound } else { NotHeld::Expired };
    // A single expired document is not a duplicate.
    let versions = expired.into_iter().filter(|_| found > 1).map(|record| record.version);
    let duplicates = versions.collect();
    Ok(Held { lock: live.pop().ok_or(reason), duplicates })
}

impl Held {
    /// Deletes the expired duplicates in the background. Operations that write call this.
    pub(crate) fn delete_duplicates(&mut self, inner: &Arc<Inner>) {
        for duplicate in std::mem::take(&mut self.duplicates) {
            inner.in_background(vec![delete(duplicate)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use gcloud_sdk::prost_types;
    use syncguard_core::{ErrorCode, Fence};

    use super::*;

    fn record(lock_id: LockId, expires_at: u64) -> Record {
        let time = |millis| Timestamp::from_millis(millis).unwrap();
        Record {
            key: Key::new("secret-key").unwrap(),
            lock_id,
            acquired_at: time(0),
            expires_at: time(expires_at),
            fence: Fence::new(1).unwrap(),
            has_holder: true,
            holder: None,
            version: Version {
                name: format!("…/locks/secret-key-{expires_at}"),
                updated: prost_types::Timestamp::default(),
            },
        }
    }

    #[test]
    fn duplicates_are_seen_and_two_live_ones_are_left_alone() {
        use NotHeld::{Expired, NotFound};
        let (id, now) = (LockId::generate().unwrap(), Timestamp::from_millis(100_000).unwrap());
        for (expiries, expected) in [
            (&[][..], Ok((Err(NotFound), 0))),
            (&[100_000], Ok((Ok(100_000), 0))),
            // A lock is live until the tolerance of 1 s is over.
            (&[99_001], Ok((Ok(99_001), 0))),
            (&[99_000], Ok((Err(Expired), 0))),
            (&[5, 100_000, 6], Ok((Ok(100_000), 2))),
            (&[5, 6], Ok((Err(Expired), 2))),
            (&[100_000, 99_001], Err(ErrorCode::Internal)),
            (&[100_000, 5, 99_001], Err(ErrorCode::Internal)),
        ] {
            let records = expiries.iter().map(|expiry| record(id, *expiry)).collect();
            let chosen = choose(records, id, now).map_err(|error| error.code()).map(|held| {
                (held.lock.map(|lock| lock.expires_at.as_millis()), held.duplicates.len())
            });
            assert_eq!(chosen, expected, "{expiries:?}");
        }
        let other = LockId::generate().unwrap();
        let held = choose(vec![record(other, 100_000)], id, now).unwrap();
        assert!(matches!(held.lock, Err(NotFound)), "a document of another lock id");
    }
}
