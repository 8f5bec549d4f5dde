//! Keys that Firestore does not accept as names of documents.

use anyhow::Result;
use syncguard_firestore::Key;
use syncguard_firestore::authoring::{StorageLimits, make_hashed_storage_key};

use crate::firestore::support::{Raw, backend, fresh, take};

/// The conformance suite has more of them; here it is about the documents.
///
/// A key may look like the hash of another key, or like a whole document name.
#[tokio::test]
async fn a_key_that_looks_like_the_document_of_another_is_a_key_of_its_own() -> Result<()> {
    let url = fresh();
    let (raw, ours) = (Raw::new(&url), backend(&url).await);
    let hash =
        make_hashed_storage_key("", &Key::new("a/b")?, StorageLimits { limit: 1500, reserve: 0 })?;
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
