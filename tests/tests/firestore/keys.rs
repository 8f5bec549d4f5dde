//! Keys that Firestore does not accept as names of documents.

use anyhow::Result;
use syncguard_firestore::authoring::{StorageLimits, make_hashed_storage_key};
use syncguard_firestore::contract::{LookupRequest, ReleaseRequest};
use syncguard_firestore::{Key, LockBackend as _};

use crate::firestore::support::{Raw, backend, fresh, is_free, take};

/// The conformance suite has more of them; here it is about the documents.
#[tokio::test]
async fn every_key_has_documents_of_its_own() -> Result<()> {
    let url = fresh();
    let (raw, ours, other) = (Raw::new(&url), backend(&url).await, backend(&url).await);
    let (longest, slashes) = ("𝄞".repeat(128), "/".repeat(512));
    let document = "projects/p/databases/(default)/documents/locks/x";
    let short = [
        "/", "//", "a/b", "a/b/c", "/a", "a/", ".", "..", "...", "./..", "__", "___", "__x__",
        "__x", "x__", "fence:a", "locks", " ", "%2F", "\\", "\"'`", "a[c]*~", "\u{1}",
    ];
    let long = ["fence:a/b", "\u{ffff}", "\u{10ffff}", "e\u{301}", document, &longest, &slashes];
    let keys = [&short[..], &long].concat();
    for &key in &keys {
        let lock = take(&ours, key, 60_000).await;
        assert!(!is_free(&other, key).await, "{key:?}");
        for lookup in [LookupRequest::by_key(key)?, LookupRequest::by_lock_id(lock.lock_id)] {
            let found = other.lookup(lookup).await?.expect(key).expose();
            assert_eq!((found.key, found.lock_id), (Key::new(key)?, lock.lock_id));
        }
        assert!(other.release(ReleaseRequest::new(lock.lock_id)).await?.is_released(), "{key:?}");
        let fences = (lock.fence.get(), take(&other, key, 60_000).await.fence.get());
        assert_eq!(fences, (1, 2), "{key:?}");
    }
    // None is in a subcollection.
    assert_eq!(raw.ids("locks").await.len(), keys.len());
    assert_eq!(raw.ids("fence_counters").await.len(), keys.len());
    Ok(())
}

/// A key may look like the hash of another key, or like a whole document name.
#[tokio::test]
async fn a_key_that_looks_like_the_document_of_another_is_a_key_of_its_own() -> Result<()> {
    let url = fresh();
    let (raw, ours) = (Raw::new(&url), backend(&url).await);
    let hash = make_hashed_storage_key("", &Key::new("a/b")?, StorageLimits::new(1500, 0))?;
    let hash = hash.expose();
    let hashed = format!("{hash:~<513}");
    let _held = take(&ours, "a/b", 60_000).await;
    assert_eq!(raw.ids("locks").await, [hashed.as_str()]);
    for key in [hash, &hashed[..512]] {
        assert_eq!(take(&ours, key, 60_000).await.fence.get(), 1);
    }
    assert_eq!(raw.ids("locks").await.len(), 3);
    Ok(())
}
