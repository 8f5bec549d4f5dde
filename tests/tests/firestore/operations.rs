//! The requests of an operation, and its treatment of the documents that it finds.

use std::time::Duration;

use anyhow::Result;
use syncguard_firestore::contract::{
    ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::{
    ErrorCode, FirestoreBackend, FirestoreOptions, Key, LockBackend as _, LockId, NotHeld,
    ReleaseResult,
};
use syncguard_tests::calls::until;

use crate::firestore::support::{Raw, backend, backend_with, fresh, options, request, take, text};
use crate::support::warnings::Warnings;

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) async fn release(backend: &FirestoreBackend, lock_id: LockId) -> Result<ReleaseResult> {
    Ok(backend.release(ReleaseRequest::new(lock_id)).await?)
}

pub(crate) async fn extend(backend: &FirestoreBackend, lock_id: LockId) -> Result<bool> {
    Ok(backend.extend(ExtendRequest::new(lock_id, MINUTE)?).await?.is_extended())
}

#[tokio::test]
async fn every_operation_sends_what_it_says() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    for (remembered, to_extend, to_release) in [(10, 1, 1), (0, 2, 2)] {
        let options = FirestoreOptions::new().with_remembered_locks(remembered);
        let backend = raw.backend(&url, &options);
        let lock = take(&backend, "k", 60_000).await;
        assert_eq!(raw.calls(), 2, "acquire");
        assert!(!backend.acquire(request("k", 60_000)).await?.is_acquired());
        assert_eq!(raw.calls(), 1, "a refused acquire");
        for _ in 0..2 {
            assert!(extend(&backend, lock.lock_id).await?);
            assert_eq!(raw.calls(), to_extend, "extend");
        }
        assert!(backend.is_locked(IsLockedRequest::new("k")?).await?);
        assert_eq!(raw.calls(), 1, "is_locked");
        assert!(backend.lookup(LookupRequest::by_key("k")?).await?.is_some());
        assert_eq!(raw.calls(), 1, "lookup by key");
        assert!(backend.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?.is_some());
        assert_eq!(raw.calls(), 1, "lookup by lock id");
        assert_eq!(release(&backend, lock.lock_id).await?, ReleaseResult::Released);
        assert_eq!(raw.calls(), to_release, "release");
        assert!(!release(&backend, lock.lock_id).await?.is_released());
        assert_eq!(raw.calls(), 1, "a release of nothing");

        // A read of one document in the place of the query. A wrong hint costs one more call.
        let lock = take(&backend, "k", 60_000).await;
        let other = raw.backend(&url, &options);
        for (hint, more) in [("k", 0), ("nobody", 1)] {
            raw.calls();
            let lookup = LookupRequest::by_lock_id(lock.lock_id).with_key_hint(Key::new(hint)?);
            assert!(other.lookup(lookup).await?.is_some());
            assert_eq!(raw.calls(), 1 + more, "lookup, {hint}");
        }
        let hinted = ReleaseRequest::new(lock.lock_id).with_key_hint(Key::new("k")?);
        assert!(other.release(hinted).await?.is_released());
        assert_eq!(raw.calls(), 2, "release with the key");
    }
    Ok(())
}

/// A lock whose document has the name of the key.
pub(crate) fn copy_of(
    key: &str,
    lock_id: LockId,
    expires_at: i64,
) -> [(&'static str, ValueType); 5] {
    [
        ("lockId", text(lock_id.expose())),
        ("expiresAtMs", ValueType::IntegerValue(expires_at)),
        ("acquiredAtMs", ValueType::IntegerValue(1)),
        ("key", text(key)),
        ("fence", text("000000000000007")),
    ]
}

const LONG_AGO: i64 = 1_000_000;
pub(crate) const FAR: i64 = 9_000_000_000_000;

#[tokio::test]
async fn expired_duplicates_are_deleted() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let backend = backend_with(&url, options().with_remembered_locks(0)).await;
    let lock = take(&backend, "k", 60_000).await;
    raw.set("locks/copy", copy_of("copy", lock.lock_id, LONG_AGO)).await;

    // A lookup only reads, and warns.
    let warnings = Warnings::new();
    let here = tracing::subscriber::set_default(warnings.clone());
    let found = backend.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?.unwrap();
    assert_eq!((found.key.expose(), warnings.count()), ("k", 1));
    drop(here);
    assert_eq!(raw.ids("locks").await, ["copy", "k"]);

    assert!(extend(&backend, lock.lock_id).await?);
    until("tidy", async || raw.ids("locks").await == ["k"]).await;
    raw.set("locks/copy", copy_of("copy", lock.lock_id, LONG_AGO)).await;
    assert!(release(&backend, lock.lock_id).await?.is_released());
    until("tidy", async || raw.ids("locks").await.is_empty()).await;

    // All of them have expired, so none has an owner.
    raw.set("locks/a", copy_of("a", lock.lock_id, LONG_AGO)).await;
    raw.set("locks/b", copy_of("b", lock.lock_id, LONG_AGO)).await;
    let answer = release(&backend, lock.lock_id).await?;
    assert_eq!(answer, ReleaseResult::NotHeld(NotHeld::Expired));
    until("tidy", async || raw.ids("locks").await.is_empty()).await;
    Ok(())
}

#[tokio::test]
async fn two_live_duplicates_are_left_alone() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let backend = backend_with(&url, options().with_remembered_locks(0)).await;
    let lock = take(&backend, "k", 60_000).await;
    raw.set("locks/copy", copy_of("copy", lock.lock_id, FAR)).await;
    let errors = [
        release(&backend, lock.lock_id).await.unwrap_err().to_string(),
        extend(&backend, lock.lock_id).await.unwrap_err().to_string(),
        backend.lookup(LookupRequest::by_lock_id(lock.lock_id)).await.unwrap_err().to_string(),
    ];
    for error in errors {
        assert!(error.starts_with("two live locks") && error.ends_with("(Internal)"), "{error}");
        assert!(!error.contains(lock.lock_id.expose()));
    }
    assert_eq!(raw.ids("locks").await, ["copy", "k"]);

    // A backend that took the lock and remembers its place uses that document: it touches no other.
    let rememberer = backend_with(&url, options()).await;
    let mine = take(&rememberer, "mine", 60_000).await;
    raw.set("locks/theirs", copy_of("theirs", mine.lock_id, FAR)).await;
    assert!(extend(&rememberer, mine.lock_id).await?);
    assert!(release(&rememberer, mine.lock_id).await?.is_released());
    assert_eq!(raw.ids("locks").await, ["copy", "k", "theirs"]);
    let theirs = raw.get("locks/theirs").await.expect("a lock");
    assert_eq!(theirs["expiresAtMs"], ValueType::IntegerValue(FAR));
    Ok(())
}

#[tokio::test]
async fn a_corrupt_or_lost_counter_never_lets_a_fence_repeat() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let backend = backend(&url).await;
    raw.set("fence_counters/fence:k", [("fence", ValueType::IntegerValue(7))]).await;
    let error = backend.acquire(request("k", 1000)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Internal);
    assert!(error.message().starts_with("corrupt fence counter"), "{error}");
    assert!(raw.ids("locks").await.is_empty(), "nothing was written");

    // A TTL policy has deleted the counter; the expired lock still has the fence.
    raw.set("locks/eaten", copy_of("eaten", LockId::generate()?, LONG_AGO)).await;
    assert_eq!(take(&backend, "eaten", 1).await.fence.get(), 8);
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
    raw.set("locks/copy", copy_of("copy", lock.lock_id, LONG_AGO)).await;
    for hint in ["garbage", "copy"] {
        let lookup = LookupRequest::by_lock_id(lock.lock_id).with_key_hint(Key::new(hint)?);
        let found = other.lookup(lookup).await?.expect("a live lock");
        assert_eq!(found.key.expose(), "k", "{hint}");
    }
    let hinted = ReleaseRequest::new(lock.lock_id).with_key_hint(Key::new("garbage")?);
    assert!(other.release(hinted).await?.is_released());
    assert!(raw.get("locks/garbage").await.is_some());
    Ok(())
}
