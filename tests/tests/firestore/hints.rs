//! The effect of a key hint for a lock that another process has taken.

use std::time::Duration;

use anyhow::Result;
use syncguard_firestore::contract::{ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::{Key, LockBackend as _, NotHeld, ReleaseResult};

use crate::firestore::operations::copy_of;
use crate::firestore::support::{Raw, backend, fresh, options, take};

const MINUTE: Duration = Duration::from_secs(60);

/// A read of one document replaces the query. Only a wrong hint, and a lock that is gone, cost one more call.
#[tokio::test]
async fn a_hint_turns_the_query_into_a_read() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let (holder, other) = (backend(&url).await, raw.backend(&url, &options()));
    let (right, wrong) = (Key::new("k")?, Key::new("nobody")?);
    for (hint, more) in [(None, 0), (Some(&right), 0), (Some(&wrong), 1)] {
        let lock = take(&holder, "k", 60_000).await;
        let mut lookup = LookupRequest::by_lock_id(lock.lock_id);
        let mut release = ReleaseRequest::new(lock.lock_id);
        (lookup.key_hint, release.key_hint) = (hint.cloned(), hint.cloned());
        raw.calls();
        assert!(other.lookup(lookup).await?.is_some());
        assert_eq!(raw.calls(), 1 + more, "lookup, {hint:?}");
        assert!(other.release(release.clone()).await?.is_released());
        assert_eq!(raw.calls(), 2 + more, "release, {hint:?}");
        let again = other.release(release).await?;
        assert_eq!(again, ReleaseResult::NotHeld(NotHeld::NotFound));
        assert_eq!(raw.calls(), 1 + u64::from(hint.is_some()), "a release of nothing, {hint:?}");

        let lock = take(&holder, "k", 60_000).await;
        let mut extend = ExtendRequest::new(lock.lock_id, MINUTE)?;
        extend.key_hint = hint.cloned();
        raw.calls();
        assert!(other.extend(extend.clone()).await?.is_extended());
        assert_eq!(raw.calls(), 2 + more, "extend, {hint:?}");
        // From here on the backend knows the place of the lock.
        assert!(other.extend(extend).await?.is_extended());
        assert_eq!(raw.calls(), 1, "the next extend, {hint:?}");
        assert!(holder.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    }
    Ok(())
}

/// The document under the hint may belong to any caller, and may be no lock at all.
#[tokio::test]
async fn what_is_under_a_wrong_hint_is_left_alone() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let (holder, other) = (backend(&url).await, backend(&url).await);
    raw.set("locks/garbage", [("lockId", ValueType::BooleanValue(true))]).await;
    let lock = take(&holder, "k", 60_000).await;
    // An old copy of the lock itself is not the lock.
    raw.set("locks/copy", copy_of("copy", lock.lock_id, 1_000_000)).await;
    for hint in ["garbage", "copy"] {
        let lookup = LookupRequest::by_lock_id(lock.lock_id).with_key_hint(Key::new(hint)?);
        let found = other.lookup(lookup).await?.expect("a live lock");
        assert_eq!(found.key.expose(), "k", "{hint}");
    }
    let release = ReleaseRequest::new(lock.lock_id).with_key_hint(Key::new("garbage")?);
    assert!(other.release(release).await?.is_released());
    assert!(raw.get("locks/garbage").await.is_some());
    Ok(())
}
