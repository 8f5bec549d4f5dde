//! The part of a record that is for people: a field that a test has added to it comes back from every store, though no
//! store knows its name.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{AcquireRequest, ExtendRequest, Holder, LookupRequest, ReleaseRequest};
use syncguard::inventory::ListRequest;
use syncguard::{AcquisitionOptions, LockBackend as _, LockConfig, acquire};
use syncguard_tests::inventory::inventory;

use crate::differential::stores::fresh;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn every_store_keeps_one_more_field_for_people() -> Result<()> {
    let odd =
        Holder::new("a \"label\" \\ é")?.with_note("a note")?.with_spare("{\"key\":1}, \\n")?;
    let holders =
        [odd, Holder::new("web")?.with_spare("no note")?, Holder::unnamed().with_spare("alone")?];
    for backend in &fresh().await {
        let name = backend.capabilities().backend;
        for holder in &holders {
            let request = AcquireRequest::new("k", HOUR)?.with_holder(holder.clone());
            let id = request.lock_id;
            ensure!(backend.acquire(request).await?.is_acquired(), "{name}");
            for _ in 0..2 {
                for lookup in [LookupRequest::by_key("k")?, LookupRequest::by_lock_id(id)] {
                    let found = backend.lookup(lookup).await?.context(name)?;
                    ensure!(found.holder.as_ref() == Some(holder), "{name}: {found:?}");
                }
                let listed = inventory(backend).list_locks(ListRequest::new()).await?.entries;
                let listed: Vec<_> = listed.iter().map(|lock| lock.holder.as_ref()).collect();
                ensure!(listed == [Some(holder)], "{name}: {listed:?}");
                let extended = backend.extend(ExtendRequest::new(id, 2 * HOUR)?).await?;
                ensure!(extended.is_extended(), "{name}");
            }
            let short = AcquisitionOptions::new().with_timeout(Duration::from_millis(50));
            let error =
                acquire(backend, LockConfig::new("k").with_acquisition(short)).await.unwrap_err();
            // The error has a holder unless the store took long to say it.
            ensure!(error.holder().is_none_or(|named| named == holder), "{name}: {error:?}");
            ensure!(backend.release(ReleaseRequest::new(id)).await?.is_released(), "{name}");
        }
    }
    Ok(())
}
