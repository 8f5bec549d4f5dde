//! A process that dies while it holds locks, and waiters of another process for them.

use std::time::Duration;

use anyhow::Result;
use syncguard_bench::clock;
use syncguard_core::{LockBackend, Locker};
use tokio::task::JoinSet;

use crate::job::Job;
use crate::process::{Process, tell, wait_for_start};
use crate::row::fresh_keys;
use crate::tables::Tables;

/// The time from the expiry of a crashed holder's lock to the grant in this process. At most 5 ms more than the floor are
/// asked for.
pub(crate) async fn holder(tables: &mut Tables, url: &str, floor: f64) -> Result<()> {
    const NAME: &str = "crashed holder";
    const ROUNDS: usize = 10;
    const TOLERANCE_MS: f64 = 1000.0;
    if !tables.wants_row(NAME) {
        return Ok(());
    }
    let keys = fresh_keys(ROUNDS);
    let mut holder = Process::start(url, &Job::Hold(keys.clone()))?;
    holder.wait_until_ready()?;
    let locker = Locker::new(syncguard::connect(url).await?);
    locker.acquire("warm").await?.release().await?;
    holder.begin_at(clock::now())?;
    let expiries: Vec<f64> = tokio::task::block_in_place(|| holder.answer())?;
    let mut waiters = JoinSet::new();
    for (key, expiry) in keys.into_iter().zip(expiries) {
        let locker = locker.clone();
        waiters.spawn(async move {
            let guard = locker.acquire(key).await?;
            let late = clock::wall_ms() - expiry - TOLERANCE_MS;
            guard.release().await?;
            anyhow::Ok(late)
        });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(holder);
    let mut late = waiters.join_all().await.into_iter().collect::<Result<Vec<f64>>>()?;
    late.sort_by(f64::total_cmp);
    let (first, p50, last) = (late[0], late[ROUNDS / 2], late[ROUNDS - 1]);
    println!("{NAME:<26} p50 {p50:.1} ms after its time ({first:.1} to {last:.1})");
    tables.at_most(NAME, "p50 after its time, in ms", p50, 5.0 + floor);
    Ok(())
}

/// The child's side: takes locks, reports the expiry of each in ms since 1970, and holds them until it is killed.
pub(crate) async fn hold(backend: impl LockBackend, keys: &[String]) -> Result<()> {
    let locker = Locker::new(backend).with_ttl(Duration::from_secs(1));
    tokio::task::block_in_place(wait_for_start)?;
    let mut guards = Vec::new();
    for key in keys {
        guards.push(locker.acquire(key.as_str()).await?);
        // So that the expiries are apart.
        clock::exactly(Duration::from_millis(37)).await?;
    }
    tell(&guards.iter().map(|guard| guard.expires_at().as_millis() as f64).collect::<Vec<_>>())?;
    std::future::pending().await
}
