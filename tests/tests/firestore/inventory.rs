//! The inventory of a database.

use anyhow::Result;
use syncguard_firestore::inventory::ListRequest;
use syncguard_firestore::{Fence, FirestoreOptions, LockId};
use syncguard_tests::inventory::inventory;

use crate::firestore::operations::copy_of;
use crate::firestore::support::{Raw, fresh, take};

#[tokio::test]
async fn each_of_it_sends_what_it_says() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let backend = raw.backend(&url, &FirestoreOptions::new());
    for key in ["job:1", "job:2", "job:3", "a/b"] {
        let _ = take(&backend, key, 60_000).await;
    }
    raw.calls();
    let page = inventory(&backend).list_locks(ListRequest::new().with_page_size(2)).await?;
    assert_eq!((page.entries.len(), raw.calls()), (2, 1), "a page of locks");
    inventory(&backend).list_counters(ListRequest::new()).await?;
    assert_eq!(raw.calls(), 1, "a page of counters");
    inventory(&backend).fence_counter("job:1").await?;
    assert_eq!(raw.calls(), 1, "a look at a counter");
    inventory(&backend).raise_counter("job:1", Fence::new(9)?).await?;
    assert_eq!(raw.calls(), 2, "a raise");
    inventory(&backend).raise_counter("job:1", Fence::new(5)?).await?;
    assert_eq!(raw.calls(), 1, "a raise to less");
    // A key that is no document id is found by its prefix as well, and another tenant's lock is not.
    let theirs = copy_of("ab", LockId::generate()?, 9_000_000_000_000);
    raw.set("tenants/acme/locks/ab", theirs).await;
    for prefix in ["a/", "a"] {
        let slashed =
            inventory(&backend).list_locks(ListRequest::new().with_prefix(prefix)).await?;
        assert_eq!(slashed.entries.len(), 1, "{prefix}: {slashed:?}");
    }
    // A document without a key is no lock, and a listing of all keys says so.
    let theirs = copy_of("x", LockId::generate()?, 9_000_000_000_000);
    raw.set("locks/keyless", theirs.into_iter().filter(|(field, _)| *field != "key")).await;
    for page_size in [1, 100] {
        let mut next = Some(ListRequest::new().with_page_size(page_size));
        let (mut locks, mut corrupt) = (0, 0);
        while let Some(request) = next {
            let page = inventory(&backend).list_locks(request).await?;
            locks += page.entries.len();
            corrupt += page.corrupt.len();
            next = page.next;
        }
        assert_eq!((locks, corrupt), (4, 1), "{page_size}");
    }
    Ok(())
}
