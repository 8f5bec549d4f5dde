//! Watches leave nothing behind.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::tokio_postgres::NoTls;
use syncguard_postgres::{PostgresOptions, acquire};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::FaultProxy;
use syncguard_tests::calls::polled_every;
use syncguard_tests::polling::poll_times_and_linger;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::postgres::support::{connect, over, release, take, until};

use super::stage::{SOON, Stage, unpolled, watch, watch_in_time};

/// How many keys a process watches on [`small_stage`].
const PER_PROCESS: usize = 40 * 10 / 64;

/// A server that has little room for locks.
async fn small_stage() -> Result<Stage> {
    let server = PostgresServer::builder()
        .config("fsync = off")
        .config("max_connections = 40")
        .config("max_locks_per_transaction = 10");
    Stage::over(server.start()?).await
}

/// A hundred keys with a waiter each use one connection. When all waiters have gone, nothing is locked, and the
/// connection is closed soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_keys_share_one_connection_and_leave_nothing() -> Result<()> {
    const KEYS: i64 = 100;
    let stage = Stage::new().await?;
    let (ours, theirs) = (stage.backend().await?, stage.backend().await?);
    let mut guards = Vec::new();
    for number in 0..KEYS {
        guards.push(acquire(&theirs, unpolled(&format!("k{number}"))).await?);
    }
    let mut waiting = JoinSet::new();
    for number in 0..KEYS {
        let ours = ours.clone();
        waiting.spawn(async move {
            let patient = polled_every(Duration::from_secs(10), &format!("k{number}"));
            acquire(&ours, patient).await?.release().await
        });
    }
    stage.watches(KEYS).await?;
    ensure!(stage.listeners().await?.len() == 1);
    let half = guards.split_off(guards.len() / 2);
    for guard in guards {
        guard.release().await?;
    }
    for _ in 0..KEYS / 2 {
        let released = timeout(SOON, waiting.join_next()).await?;
        ensure!(released.context("a waiter")???.is_released());
    }
    stage.watches(KEYS / 2).await?;
    // The other waiters give up.
    waiting.shutdown().await;
    stage.watches(0).await?;
    ensure!(stage.listeners().await?.len() == 1, "it stays for a while");
    let unused = Instant::now();
    stage.listens(0).await?;
    ensure!(unused.elapsed() > Duration::from_secs(5));
    drop(half);
    Ok(())
}

/// Many processes wait for many keys, and the server's lock table still has room for another program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_leave_room_for_the_locks_of_other_programs() -> Result<()> {
    const PROCESSES: usize = 8;
    const KEYS: usize = 60;
    let stage = small_stage().await?;
    let (mut backends, mut watches) = (Vec::new(), Vec::new());
    for process in 0..PROCESSES {
        let backend = stage.backend().await?;
        watches.push(watch_in_time(&backend, &format!("{process}")).await?);
        for key in 0..KEYS {
            watches.extend(watch(&backend, &format!("{process} {key}")).await);
        }
        backends.push(backend);
    }
    ensure!(stage.watched().await? == i64::try_from(PROCESSES * PER_PROCESS)?);
    let locks = "SELECT pg_advisory_lock(n) FROM generate_series(1, 300) AS n";
    stage.admin.batch_execute(locks).await?;
    Ok(())
}

/// For keys beyond the limit, one statement polls, if the role that listens sees the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_beyond_the_limit_share_their_polls() -> Result<()> {
    const KEYS: usize = 60;
    let stage = small_stage().await?;
    let proxy = FaultProxy::start(stage.server.port())?;
    let ours = stage.backend_that_listens_over(proxy.port()).await?;
    let theirs = stage.backend().await?;
    let (mut held, mut watches) = (Vec::new(), Vec::new());
    for key in 0..KEYS {
        held.push(take(&theirs, &key.to_string()).await);
        watches.push(watch_in_time(&ours, &key.to_string()).await?);
    }
    ensure!(stage.watched().await? == i64::try_from(PER_PROCESS)?);
    let before = proxy.counters();
    let [.., other, watching] = &mut watches[..] else { bail!("no watches") };
    ensure!(timeout(Duration::from_secs(1), watching.changed()).await.is_err(), "it is held");
    let polls = (proxy.counters() - before).flights;
    ensure!(polls < KEYS as u64 / 2, "{polls}");
    release(&theirs, held[KEYS - 1].lock_id).await?;
    timeout(SOON, watching.changed()).await?;
    ensure!(timeout(Duration::ZERO, other.changed()).await.is_err(), "it is held");

    stage.admin.batch_execute("CREATE ROLE listener LOGIN").await?;
    let listener = stage.server.url().replace("postgres:syncguard@", "listener@");
    let options = PostgresOptions::new().with_signals_over(&listener.parse()?, NoTls);
    let blind = over(&stage.server.url(), 2, options);
    for key in 0..PER_PROCESS {
        watches.push(watch_in_time(&blind, &key.to_string()).await?);
    }
    ensure!(watch(&blind, "one more").await.is_none());
    Ok(())
}

/// If the lock table is full, a process uses half as much from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_table_of_locks_is_answered_with_fewer_watches() -> Result<()> {
    let stage = Stage::new().await?;
    let backend = stage.backend().await?;
    let first = watch_in_time(&backend, "first").await?;
    let hog = connect(&stage.server.url()).await;
    let full = hog.batch_execute("SELECT pg_advisory_lock(n) FROM generate_series(1, 100000) AS n");
    let full = full.await.expect_err("there is no room for so many");
    ensure!(full.code().is_some_and(|code| code.code() == "53200"), "{full}");
    until("a refusal", async || {
        let refused = watch(&backend, "one more").await;
        Ok(refused.is_none() && first.is_over())
    })
    .await?;
    hog.batch_execute("SELECT pg_advisory_unlock_all()").await?;
    // 100 of 6400 possible locks, and now 50.
    let mut watches = vec![watch_in_time(&backend, "again").await?];
    for key in 0..100 {
        watches.extend(watch(&backend, &format!("{key}")).await);
    }
    ensure!(watches.len() == 101 && stage.watched().await? == 50, "{}", watches.len());
    Ok(())
}

/// A caller that leaves at any point leaves no watch behind.
#[tokio::test]
async fn a_watch_that_is_given_up_leaves_nothing() -> Result<()> {
    let stage = Stage::new().await?;
    let backend = stage.backend().await?;
    for is_open in [false, true] {
        for linger in [Duration::ZERO, Duration::from_millis(1)] {
            for polls in 0..5 {
                if !is_open {
                    stage.kill_listeners().await?;
                    stage.listens(0).await?;
                }
                let watch = poll_times_and_linger(watch(&backend, "key"), polls, linger).await;
                drop(watch);
                stage.watches(0).await?;
            }
        }
        drop(watch_in_time(&backend, "key").await?);
    }
    Ok(())
}
