//! A process that dies while it holds locks, and one that waits for them: the child's side.

use std::time::Duration;

use anyhow::Result;
use syncguard_core::{LockBackend, Locker};
use tokio::task::JoinSet;

use crate::clock;
use crate::job::{Follow, Hold};
use crate::process::{Parent, tell};

/// Takes locks, reports the expiry of each in ms since 1970, and holds them until it is killed.
pub(crate) async fn hold<B: LockBackend>(backend: B, hold: &Hold) -> Result<()> {
    let locker = Locker::new(backend).with_ttl(hold.ttl);
    tokio::task::block_in_place(|| Parent.wait_for_start())?;
    let mut guards = Vec::new();
    for number in 0..hold.keys {
        guards.push(locker.acquire(format!("{}:{number}", hold.prefix)).await?);
        if !hold.pause.is_zero() {
            clock::exactly(hold.pause).await?;
        }
    }
    tell(&guards.iter().map(|guard| guard.expires_at().as_millis() as f64).collect::<Vec<_>>())?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    Ok(())
}

/// Waits for the same locks, all at once, and reports the time of each grant.
pub(crate) async fn follow<B: LockBackend>(backend: B, follow: &Follow) -> Result<()> {
    let locker = Locker::new(backend);
    locker.acquire(format!("{}:warm", follow.prefix)).await?.release().await?;
    tokio::task::block_in_place(|| Parent.wait_for_start())?;
    let mut waiters = JoinSet::new();
    for number in 0..follow.keys {
        let (locker, key) = (locker.clone(), format!("{}:{number}", follow.prefix));
        waiters.spawn(async move {
            let guard = locker.acquire(key).await?;
            let granted = clock::wall_ms();
            guard.release().await?;
            anyhow::Ok((number, granted))
        });
    }
    let mut granted = vec![0.0; follow.keys];
    while let Some(waiter) = waiters.join_next().await {
        let (number, at) = waiter??;
        granted[number] = at;
    }
    tell(&granted)
}
