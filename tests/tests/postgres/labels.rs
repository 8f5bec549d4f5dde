//! Labels beside the TypeScript library, whose upsert leaves the columns that it does not know as they are.

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::LockBackend as _;
use syncguard_postgres::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, Holder, LookupRequest,
};
use syncguard_postgres::inventory::ListRequest;
use syncguard_tests::inventory::inventory;

use crate::postgres::support::{MINUTE, Tables, connect, shared};
use crate::postgres::typescript;

/// A lock of theirs over the expired row of ours, and the next lock of ours over theirs.
#[tokio::test]
async fn no_lookup_shows_the_label_of_another_lock() -> Result<()> {
    let (tables, admin) = (Tables::fresh(), connect(&shared().url()).await);
    let (backend, mut client) = (tables.backend(1).await, connect(&shared().url()).await);
    for label in ["first", "second"] {
        let holder = Holder::new(label)?.with_note("a note")?;
        let request = AcquireRequest::new("k", MINUTE)?.with_holder(holder.clone());
        let ours = request.lock_id;
        ensure!(backend.acquire(request).await?.is_acquired(), "a free key");
        ensure!(backend.extend(ExtendRequest::new(ours, MINUTE)?).await?.is_extended());
        let found = backend.lookup(LookupRequest::by_lock_id(ours)).await?.context("our lock")?;
        ensure!(found.holder == Some(holder), "{:?}", found.holder);

        tables.age(&admin, "k", 120_000).await;
        let theirs = typescript::acquire(&mut client, &tables, "k", 60_000).await?;
        let (theirs, _) = theirs.context("a free key")?;
        for request in [LookupRequest::by_key("k")?, LookupRequest::by_lock_id(theirs)] {
            let found = backend.lookup(request).await?.context("their lock")?;
            ensure!(found.holder.is_none(), "{:?}", found.holder);
        }
        let listed = inventory(&backend).list_locks(ListRequest::new()).await?.entries;
        ensure!(listed.len() == 1 && listed[0].holder.is_none(), "{listed:?}");
        let refused = backend.acquire(AcquireRequest::new("k", MINUTE)?).await?;
        ensure!(matches!(&refused, AcquireResult::Busy(held) if held.is_polled), "{refused:?}");
        tables.age(&admin, "k", 120_000).await;
    }
    Ok(())
}
