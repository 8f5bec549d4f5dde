//! The end of a run: the state after all work has ended.

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard::LockBackend as _;
use syncguard::contract::{LookupRequest, TIME_TOLERANCE};
use syncguard_history::{Entry, Recorder, Recording};

use crate::connect::{Connected, connect};
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
    let connected = patiently(&store.direct()).await?;
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
    drop((backend, connected));
    let (mut live, mut borrowed) = store.leftovers()?;
    while (live, borrowed) != (0, 0) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
        (live, borrowed) = store.leftovers()?;
    }
    recorder.note(Entry::Quiet { live, tasks: 0, borrowed });
    Ok(())
}

/// A pooler takes a moment to notice that its server is back.
async fn patiently(url: &str) -> Result<Connected> {
    let started = Instant::now();
    loop {
        match connect(url, None).await {
            Err(_) if started.elapsed() < Duration::from_secs(10) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            done => return done,
        }
    }
}
