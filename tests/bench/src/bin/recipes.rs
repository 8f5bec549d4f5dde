//! `cargo xtask bench recipes`: waiting for permits, on one Redis server, and sets of a thousand locks (`--set`) on each store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_bench::{Counter, Options};
use syncguard_core::{AcquisitionOptions, LockBackend as _, LockConfig};
use syncguard_recipes::{Semaphore, lock_all};
use syncguard_redis::RedisBackend;
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;
use tokio::task::JoinSet;

const PERMITS: u32 = 3;
const WORK: Duration = Duration::from_millis(5);

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&["--set"])?;
    let server = RedisServer::start()?;
    println!("Waiting for {PERMITS} permits with {WORK:?} of work:");
    for processes in [4, 1] {
        for waiters in [4, 16, 64] {
            contest(&server, processes, waiters, options.time(4000)?).await?;
        }
    }
    let set = options.value("--set").unwrap_or("1000").parse()?;
    println!("A set of {set} locks, in ms:");
    many("Redis", &server.url(), set).await?;
    drop(server);
    let server = PostgresServer::start()?;
    many("PostgreSQL", &format!("{}?setup_schema=true", server.url()), set).await?;
    drop(server);
    let folder = tempfile::tempdir()?;
    many("SQLite", &format!("sqlite://{}/locks.db", folder.path().display()), set).await?;
    let server = EtcdCluster::start(1)?;
    many("etcd", &server.url(), set).await?;
    drop(server);
    let emulator = FirestoreEmulator::start()?;
    let url = format!("firestore://bench?emulator={}", emulator.host_port());
    many("Firestore emulator", &url, set).await
}

/// One process, whose keys are free: one after the other, as a minimum hold wants it, and as usual.
async fn many(name: &str, url: &str, set: usize) -> Result<()> {
    let backend = syncguard::connect(url).await?;
    let patient =
        |key| LockConfig::new(format!("bench:set:{key}")).with_wait_up_to(Duration::from_secs(300));
    let keys = || (0..set).map(patient);
    let started = Instant::now();
    drop(lock_all(&backend, keys().map(|key| key.with_min_hold(Duration::from_millis(1)))).await?);
    let one_by_one = started.elapsed().as_millis();
    backend.client_state().drained(Duration::from_secs(60)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let started = Instant::now();
    let set = lock_all(&backend, keys()).await?;
    let taken = started.elapsed().as_millis();
    set.release().await?;
    let released = started.elapsed().as_millis() - taken;
    println!("  {name}: {taken} to take them, {released} to release them; one by one {one_by_one}");
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
        let semaphore =
            Semaphore::new(backend, LockConfig::new(key).with_acquisition(patient), PERMITS);
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
    all.join_all().await.into_iter().collect::<Result<()>>()?;
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
