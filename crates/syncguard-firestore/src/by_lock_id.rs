//! Several locks with one id.

use syncguard_core::authoring::conditional::{Found, StoredLock};
use syncguard_core::{LockError, LockId, NotHeld, Timestamp};

use crate::document::Version;

/// Chooses the lock among the documents with an id.
///
/// # Errors
///
/// `Internal` if two of them are live. It is then unclear which lock the caller means, so neither is touched.
pub(crate) fn choose(
    mut locks: Vec<StoredLock<Version>>,
    lock_id: LockId,
    now: Timestamp,
) -> Result<Found<Version>, LockError> {
    // The query asks only for this id. Check the id again, because a lock of another holder must never be released.
    locks.retain(|lock| lock.record.lock_id == lock_id);
    let found = locks.len();
    let (mut live, mut expired): (Vec<_>, Vec<_>) =
        locks.into_iter().partition(|lock| lock.record.is_live(now));
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
    if found == 1 {
        // A single expired document is not a duplicate.
        expired.clear();
    }
    Ok(Found { lock: live.pop().ok_or(reason), duplicates: expired })
}

#[cfg(test)]
mod tests {
    use gcloud_sdk::prost_types;
    use syncguard_core::authoring::conditional::Record;
    use syncguard_core::{ErrorCode, Fence, Key};

    use super::*;

    fn lock(lock_id: LockId, expires_at: u64) -> StoredLock<Version> {
        let time = |millis| Timestamp::from_millis(millis).unwrap();
        let record = Record {
            key: Key::new("secret-key").unwrap(),
            lock_id,
            acquired_at: time(0),
            expires_at: time(expires_at),
            fence: Fence::new(1).unwrap(),
            holder: None,
            is_polled: false,
        };
        StoredLock { record, version: prost_types::Timestamp::default().into() }
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
            let locks = expiries.iter().map(|expiry| lock(id, *expiry)).collect();
            let chosen = choose(locks, id, now).map_err(|error| error.code()).map(|held| {
                (held.lock.map(|lock| lock.record.expires_at.as_millis()), held.duplicates.len())
            });
            assert_eq!(chosen, expected, "{expiries:?}");
        }
        let other = LockId::generate().unwrap();
        let held = choose(vec![lock(other, 100_000)], id, now).unwrap();
        assert!(matches!(held.lock, Err(NotFound)), "a document of another lock id");
    }
}
