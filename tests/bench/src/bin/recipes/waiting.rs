//! The cost of waiting for a permit, and the shares of the processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_recipes::Semaphore;
use syncguard_redis::{AcquisitionOptions, RedisBackend};
use syncguard_test_services::redis::RedisServer;
use tokio::task::JoinSet;

use crate::commands;

const PROCESSES: usize = 4;
const PERMITS: u32 = 3;
const TIME: Duration = Duration::from_secs(4);
const WORK: Duration = Duration::from_millis(5);

/// Each process has its own connection and queue. There are more waiters than holders.
pub(crate) async fn measure(server: &RedisServer) -> Result<()> {
    println!(
        "\nWaiting for {PERMITS} permits with {WORK:?} of work, from {PROCESSES} processes, and from one:"
    );
    println!(
        "  {:>7} {:>9} {:>9} {:>14} {:>12} {:>14}  shares in %",
        "waiters", "processes", "grants/s", "permits in use", "longest wait", "commands/grant"
    );
    for processes in [PROCESSES, 1] {
        for waiters in [4, 16, 64] {
            row(server, processes, waiters).await?;
        }
    }
    Ok(())
}

async fn row(server: &RedisServer, processes: usize, waiters: usize) -> Result<()> {
    let tasks = waiters + PERMITS as usize;
    let patient = AcquisitionOptions::new().with_timeout(Duration::from_secs(60));
    let key = format!("bench:waiting:{processes}:{waiters}");
    let mut semaphores = Vec::new();
    for _ in 0..processes {
        let backend = RedisBackend::connect(&server.url()).await?;
        semaphores.push(Semaphore::new(backend, key.as_str(), PERMITS)?.with_acquisition(patient));
    }
    let shares: Vec<_> = (0..processes).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let (stop, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let before = commands(server)?;
    let mut all = JoinSet::new();
    for task in 0..tasks {
        let (semaphore, share) =
            (semaphores[task % processes].clone(), Arc::clone(&shares[task % processes]));
        let (stop, longest) = (Arc::clone(&stop), Arc::clone(&longest));
        all.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let started = Instant::now();
                let permit = semaphore.acquire().await?;
                let waited = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                longest.fetch_max(waited, Ordering::Relaxed);
                share.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(WORK).await;
                permit.release().await?;
            }
            anyhow::Ok(())
        });
    }
    tokio::time::sleep(TIME).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    let shares: Vec<u64> = shares.iter().map(|share| share.load(Ordering::Relaxed)).collect();
    let grants: u64 = shares.iter().sum();
    let per_grant = (commands(server)? - before) as f64 / grants as f64;
    let per_second = grants as f64 / TIME.as_secs_f64();
    let in_use = per_second * WORK.as_secs_f64() / f64::from(PERMITS) * 100.0;
    let percent: Vec<_> = shares.iter().map(|share| share * 100 / grants.max(1)).collect();
    println!(
        "  {waiters:>7} {processes:>9} {per_second:>9.0} {in_use:>12.0} % {:>9} ms {per_grant:>14.1}  {percent:?}",
        longest.load(Ordering::Relaxed)
    );
    Ok(())
}
