//! A process that dies while it holds locks, and one that waits for them.

use std::time::Duration;

use anyhow::Result;
use syncguard_core::{LockBackend, Locker};
use tokio::task::JoinSet;

use crate::clock;
use crate::job::{Job, Locks, Store};
use crate::process::{Process, tell, wait_for_start};
use crate::row::fresh_keys;
use crate::tables::Tables;

/// The time from the expiry of a crashed holder's lock to the grant in another process. At most 5 ms more than the floor
/// are asked for.
pub(crate) fn holder(tables: &mut Tables, store: &Store, floor: f64) -> Result<()> {
    const NAME: &str = "crashed holder";
    const ROUNDS: usize = 10;
    const TOLERANCE_MS: f64 = 1000.0;
    if !tables.wants_row(NAME) {
        return Ok(());
    }
    let locks = Locks {
        prefix: fresh_keys(1).swap_remove(0),
        number: ROUNDS,
        ttl: Duration::from_secs(1),
        pause: Duration::from_millis(37),
    };
    let started = |job: &Job| -> Result<_> {
        let mut process = Process::start(store, job)?;
        process.wait_until_ready()?;
        Ok(process)
    };
    let mut holder = started(&Job::Hold(locks.clone()))?;
    let mut follower = started(&Job::Follow(locks))?;
    holder.begin_at(clock::now())?;
    let expiries: Vec<f64> = holder.answer()?;
    follower.begin_at(clock::now())?;
    std::thread::sleep(Duration::from_millis(100));
    holder.kill()?;
    let granted: Vec<f64> = follower.answer()?;
    let mut late: Vec<f64> =
        granted.iter().zip(expiries).map(|(at, expiry)| at - expiry - TOLERANCE_MS).collect();
    late.sort_by(f64::total_cmp);
    let (first, p50, last) = (late[0], late[ROUNDS / 2], late[ROUNDS - 1]);
    println!("{NAME:<26} p50 {p50:.1} ms after its time ({first:.1} to {last:.1})");
    tables.at_most(NAME, "p50 after its time, in ms", p50, 5.0 + floor);
    Ok(())
}

/// The child's side: takes locks, reports the expiry of each in ms since 1970, and holds them until it is killed.
pub(crate) async fn hold<B: LockBackend>(backend: B, locks: &Locks) -> Result<()> {
    let locker = Locker::new(backend).with_ttl(locks.ttl);
    tokio::task::block_in_place(wait_for_start)?;
    let mut guards = Vec::new();
    for number in 0..locks.number {
        guards.push(locker.acquire(format!("{}:{number}", locks.prefix)).await?);
        clock::exactly(locks.pause).await?;
    }
    tell(&guards.iter().map(|guard| guard.expires_at().as_millis() as f64).collect::<Vec<_>>())?;
    std::future::pending().await
}

/// The child's side: waits for the same locks, all at once, and reports the time of each grant.
pub(crate) async fn follow<B: LockBackend>(backend: B, locks: &Locks) -> Result<()> {
    let locker = Locker::new(backend);
    locker.acquire(format!("{}:warm", locks.prefix)).await?.release().await?;
    tokio::task::block_in_place(wait_for_start)?;
    let mut waiters = JoinSet::new();
    for number in 0..locks.number {
        let (locker, key) = (locker.clone(), format!("{}:{number}", locks.prefix));
        waiters.spawn(async move {
            let guard = locker.acquire(key).await?;
            let granted = clock::wall_ms();
            guard.release().await?;
            anyhow::Ok((number, granted))
        });
    }
    let mut granted = vec![0.0; locks.number];
    while let Some(waiter) = waiters.join_next().await {
        let (number, at) = waiter??;
        granted[number] = at;
    }
    tell(&granted)
}
