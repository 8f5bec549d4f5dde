//! The end of a run: the state after all work has ended.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard::contract::{LookupRequest, TIME_TOLERANCE};
use syncguard::inventory::ListRequest;
use syncguard::{CancellationToken, DynBackend, LockBackend as _};
use syncguard_history::{Entry, Recorder, Recording};

use crate::connect::connect;
use crate::member::patiently;
use crate::recipes::{ACCOUNTS, account};
use crate::registers::Registers;
use crate::store::Store;
use crate::work::{key, longest_ttl};

/// Waits until the locks of killed processes have expired, and records the final state.
pub(crate) async fn settle(
    store: &Store,
    registers: &str,
    (keys, ttl): (u64, Duration),
    recorder: &Recorder,
) -> Result<()> {
    let url = store.direct();
    // A pooler takes a moment to notice that its server is back.
    let connected = patiently(&CancellationToken::new(), || connect(&url, None)).await?;
    let connected = connected.context("nobody stops this")?;
    let backend = Recording::new(connected.backend.clone(), recorder.clone());
    let registers = Registers::connect(registers, recorder.clone()).await?;
    let deadline = Instant::now() + longest_ttl(ttl) + TIME_TOLERANCE + Duration::from_secs(10);
    let counted = (0..keys).map(key);
    for name in counted.chain((0..ACCOUNTS).map(account)) {
        registers.note(&name).await?;
        // The record shows if that takes too long.
        while backend.lookup(LookupRequest::by_key(name.as_str())?).await?.is_some()
            && Instant::now() < deadline
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    registers.close().await;
    let mut listed = count(&connected.backend).await?;
    while listed > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
        listed = count(&connected.backend).await?;
    }
    drop((backend, connected));
    let (mut records, mut borrowed) = store.leftovers()?;
    while (records, borrowed) != (0, 0) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
        (records, borrowed) = store.leftovers()?;
    }
    recorder.note(Entry::Quiet { live: listed + records, tasks: 0, borrowed });
    Ok(())
}

/// The locks that the store lists, and the records that make no sense.
async fn count(backend: &DynBackend) -> Result<u64> {
    let inventory = backend.inventory().context("an inventory")?;
    let (mut next, mut count) = (Some(ListRequest::new()), 0);
    while let Some(request) = next {
        let page = inventory.list_locks(request).await?;
        count += page.entries.len() + page.corrupt.len();
        next = page.next;
    }
    Ok(count as u64)
}
