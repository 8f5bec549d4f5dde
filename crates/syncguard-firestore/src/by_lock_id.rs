//! Finding a lock by its id, and handling several locks with one id.

use std::sync::Arc;

use syncguard_core::{Key, LockError, LockId, NotHeld, Timestamp};

use crate::document::{Record, Version, delete};
use crate::error::Fault;
use crate::inner::Inner;
use crate::query;
use crate::retry::Attempt;

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
    let now = inner.now()?;
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
    let [lock] = inner.client.read(&inner.layout, [&*name], attempt.call_deadline()).await?;
    let now = inner.now()?;
    let lock = lock.and_then(|lock| Record::read(lock).ok());
    Ok(lock.filter(|lock| lock.lock_id == lock_id && lock.is_live(now)))
}

fn choose(mut records: Vec<Record>, lock_id: LockId, now: Timestamp) -> Result<Held, LockError> {
    // The query asks only for this id. Check the id again, because a lock of another holder must never be
    // released.
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
    let duplicates = if found > 1 { versions(expired) } else { Vec::new() };
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

fn versions(records: Vec<Record>) -> Vec<Version> {
    records.into_iter().map(|record| record.version).collect()
}

#[cfg(test)]
mod tests {
    use gcloud_sdk::prost_types;
    use syncguard_core::{ErrorCode, Fence};

    use super::*;
    use crate::test_logs::logged;

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

    /// Returns the expiry chosen at the time 100 000, or why none was chosen; the number of duplicates; and
    /// whether a warning was logged.
    fn choose_of(expiries: &[u64]) -> (Result<Result<u64, NotHeld>, ErrorCode>, usize, bool) {
        let id = LockId::generate().unwrap();
        let records = expiries.iter().map(|expiry| record(id, *expiry)).collect();
        let (mut chosen, mut duplicates) = (Err(ErrorCode::Aborted), 0);
        let lines = logged(|| {
            let held = choose(records, id, Timestamp::from_millis(100_000).unwrap());
            duplicates = held.as_ref().map_or(0, |held| held.duplicates.len());
            chosen = held
                .map(|held| held.lock.map(|lock| lock.expires_at.as_millis()))
                .map_err(|error| error.code());
        });
        for line in &lines {
            assert!(line.starts_with("WARN"), "{line}");
            assert!(!line.contains(id.expose()) && !line.contains("secret-key"), "{line}");
        }
        (chosen, duplicates, !lines.is_empty())
    }

    #[test]
    fn duplicates_are_seen_and_two_live_ones_are_left_alone() {
        use NotHeld::{Expired, NotFound};
        assert_eq!(choose_of(&[]), (Ok(Err(NotFound)), 0, false));
        assert_eq!(choose_of(&[100_000]), (Ok(Ok(100_000)), 0, false));
        // A lock is live until the tolerance of 1 s is over.
        assert_eq!(choose_of(&[99_001]), (Ok(Ok(99_001)), 0, false));
        assert_eq!(choose_of(&[99_000]), (Ok(Err(Expired)), 0, false));
        assert_eq!(choose_of(&[5, 100_000, 6]), (Ok(Ok(100_000)), 2, true));
        assert_eq!(choose_of(&[5, 6]), (Ok(Err(Expired)), 2, true));
        assert_eq!(choose_of(&[100_000, 99_001]), (Err(ErrorCode::Internal), 0, true));
        assert_eq!(choose_of(&[100_000, 5, 99_001]), (Err(ErrorCode::Internal), 0, true));
    }

    #[test]
    fn a_document_of_another_lock_id_is_nobodys() {
        let (id, other) = (LockId::generate().unwrap(), LockId::generate().unwrap());
        let now = Timestamp::from_millis(0).unwrap();
        let held = choose(vec![record(other, 100_000)], id, now).unwrap();
        assert!(matches!(held.lock, Err(NotHeld::NotFound)));
    }
}
