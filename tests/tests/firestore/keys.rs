//! Keys that Firestore does not accept as names of documents.

use anyhow::Result;
use syncguard_firestore::authoring::{StorageLimits, make_hashed_storage_key};
use syncguard_firestore::contract::{IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_firestore::{Key, LockBackend as _};

use crate::firestore::support::{Raw, backend, fresh, is_free, take};

#[tokio::test]
async fn every_key_works_like_any_other() -> Result<()> {
    let url = fresh();
    let (raw, ours, other) = (Raw::new(&url), backend(&url).await, backend(&url).await);
    let longest = "𝄞".repeat(128);
    let slashes = "/".repeat(512);
    let keys = [
        "/",
        "//",
        "a/b",
        "a/b/c",
        "/a",
        "a/",
        ".",
        "..",
        "...",
        "./..",
        "__",
        "___",
        "____",
        "__x__",
        "__id1__",
        "__x",
        "x__",
        "fence:a",
        "fence:a/b",
        "locks",
        " ",
        "\t\n",
        "%2F",
        "\\",
        "\"'`",
        "a.b[c]*~",
        "\u{7f}",
        "\u{1}",
        "\u{ffff}",
        "\u{10ffff}",
        "e\u{301}",
        "日本語キー",
        "projects/p/databases/(default)/documents/locks/x",
        "\u{202e}abc",
        &longest,
        &slashes,
    ];
    let mut ids = Vec::new();
    for key in keys {
        let first = take(&ours, key, 60_000).await;
        assert!(!is_free(&other, key).await, "{key:?}");
        assert!(other.is_locked(IsLockedRequest::new(key)?).await?, "{key:?}");
        for lookup in [LookupRequest::by_key(key)?, LookupRequest::by_lock_id(first.lock_id)] {
            let found = other.lookup(lookup).await?.expect(key).expose();
            assert_eq!(found.key, Key::new(key)?);
            assert_eq!(found.lock_id, first.lock_id);
        }
        assert!(other.release(ReleaseRequest::new(first.lock_id)).await?.is_released(), "{key:?}");
        let second = take(&other, key, 60_000).await;
        assert_eq!((first.fence.get(), second.fence.get()), (1, 2), "{key:?}");
        ids.push(second.lock_id);
    }
    // Each has its own documents, none in a subcollection.
    assert_eq!(raw.ids("locks").await.len(), keys.len());
    assert_eq!(raw.ids("fence_counters").await.len(), keys.len());
    for id in ids {
        assert!(ours.release(ReleaseRequest::new(id)).await?.is_released());
    }
    assert!(raw.ids("locks").await.is_empty());

    // A key that looks like the hash of another key, or like a whole document name, is a key of its own.
    let hash = make_hashed_storage_key("", &Key::new("a/b")?, StorageLimits::new(1500, 0))?;
    let hash = hash.expose();
    let hashed = format!("{hash:~<513}");
    let _held = take(&ours, "a/b", 60_000).await;
    assert_eq!(raw.ids("locks").await, [hashed.as_str()]);
    for key in [hash, &hashed[..512]] {
        assert!(!other.is_locked(IsLockedRequest::new(key)?).await?);
        assert_eq!(take(&other, key, 60_000).await.fence.get(), 1);
    }
    assert!(!is_free(&other, "a/b").await);
    assert_eq!(raw.ids("locks").await.len(), 3);
    Ok(())
}
