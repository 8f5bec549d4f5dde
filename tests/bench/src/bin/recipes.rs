//! `cargo xtask bench recipes`: waiting for permits, on one Redis server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_bench::{Counter, Options};
use syncguard_recipes::Semaphore;
use syncguard_redis::{AcquisitionOptions, RedisBackend};
use syncguard_test_services::redis::RedisServer;
use tokio::task::JoinSet;

const PERMITS: u32 = 3;
const WORK: Duration = Duration::from_millis(5);

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&[])?;
    let server = RedisServer::start()?;
    println!("Waiting for {PERMITS} permits with {WORK:?} of work:");
    for processes in [4, 1] {
        for waiters in [4, 16, 64] {
            contest(&server, processes, waiters, options.time(1000, 4000)?).await?;
        }
    }
    Ok(())
}

/// Each process has its own connection and queue. There are more waiters than holders.
async fn contest(
    server: &RedisServer,
    processes: usize,
    waiters: usize,
    time: Duration,
) -> Result<()> {
    let counter = Counter::redis(&server.url()).await?;
    let patient = AcquisitionOptions::new().with_timeout(Duration::from_secs(60));
    let (stop, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (mut shares, mut all) = (Vec::new(), JoinSet::new());
    let before = counter.read().await?;
    for process in 0..processes {
        let backend = RedisBackend::connect(&server.url()).await?;
        let key = format!("bench:waiting:{processes}:{waiters}");
        let semaphore = Semaphore::new(backend, key, PERMITS)?.with_acquisition(patient);
        let share = Arc::new(AtomicU64::new(0));
        shares.push(Arc::clone(&share));
        for _ in (process..waiters + PERMITS as usize).step_by(processes) {
            let (semaphore, share) = (semaphore.clone(), Arc::clone(&share));
            let (stop, longest) = (Arc::clone(&stop), Arc::clone(&longest));
            all.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    let permit = semaphore.acquire().await?;
                    let waited = u64::try_from(started.elapsed().as_millis())?;
                    longest.fetch_max(waited, Ordering::Relaxed);
                    share.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(WORK).await;
                    permit.release().await?;
                }
                anyhow::Ok(())
            });
        }
    }
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    let shares: Vec<u64> = shares.iter().map(|share| share.load(Ordering::Relaxed)).collect();
    let grants: u64 = shares.iter().sum::<u64>().max(1);
    let commands = (counter.read().await? - before) as f64 / grants as f64;
    let percent: Vec<_> = shares.iter().map(|share| share * 100 / grants).collect();
    println!(
        "  {waiters} waiters in {processes}: {grants} grants, longest wait {} ms, {commands:.1} \
         commands a grant, shares in % {percent:?}",
        longest.load(Ordering::Relaxed)
    );
    Ok(())
}
