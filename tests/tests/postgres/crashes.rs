//! Servers that die, stop, fall silent, and come back.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::contract::{
    AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_postgres::{ErrorCode, LockBackend as _, PostgresBackend, PostgresOptions};
use syncguard_test_services::postgres::PostgresServer;
use tokio::task::JoinSet;

use crate::postgres::support::{
    MINUTE, Tables, connect, is_quiet, is_refused, pool, request, settles, shared, take, waiters,
};

/// The server is killed with all data that was not on disk, although the sessions asked for no durability: confirmed
/// locks are still there, and no fence comes twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_forgets_nothing_that_was_confirmed() -> Result<()> {
    const KEYS: usize = 20;
    let mut server = PostgresServer::builder()
        .config("synchronous_commit = off")
        .config("wal_writer_delay = 10s")
        .config("wal_writer_flush_after = 1GB")
        .start()?;
    let tables = Tables::fresh();
    let connected = tables.backend_at(&server.url(), 8).await.pool().clone();
    let options = tables.options().with_statement_timeout(MINUTE).with_pool_wait_timeout(MINUTE);
    let backend = PostgresBackend::from_pool(connected, options).expect("options in range");
    let mut fences: HashMap<usize, u64> = HashMap::new();
    for _ in 0..3 {
        let confirmed = Arc::new(Mutex::new(HashMap::new()));
        let mut workers = JoinSet::new();
        for worker in 0..KEYS {
            let (backend, confirmed) = (backend.clone(), Arc::clone(&confirmed));
            workers.spawn(async move {
                // Works until the server dies, and then the last confirmed lock is known.
                let key = format!("key {worker}");
                loop {
                    let Ok(result) = backend.acquire(request(&key, MINUTE)).await else { break };
                    let AcquireResult::Acquired(lock) = result else { continue };
                    confirmed
                        .lock()
                        .unwrap()
                        .insert(worker, (lock.fence.get(), Some(lock.lock_id)));
                    let extend = ExtendRequest::new(lock.lock_id, 10 * MINUTE).expect("a request");
                    let Ok(_) = backend.extend(extend).await else { break };
                    let Ok(released) = backend.release(ReleaseRequest::new(lock.lock_id)).await
                    else {
                        break;
                    };
                    assert!(released.is_released());
                    confirmed.lock().unwrap().insert(worker, (lock.fence.get(), None));
                }
            });
        }
        while confirmed.lock().unwrap().len() < KEYS {
            if let Some(ended) = workers.try_join_next() {
                ended?;
                bail!("a worker gave up");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.kill()?;
        let _ = workers.join_all().await;
        server.restart()?;

        let started = Instant::now();
        while backend.is_locked(IsLockedRequest::new("any")?).await.is_err() {
            ensure!(started.elapsed() < Duration::from_secs(20), "service is not back");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let confirmed = confirmed.lock().unwrap().clone();
        let admin = connect(&server.url()).await;
        for (worker, (fence, held)) in confirmed {
            let key = format!("key {worker}");
            ensure!(
                fences.insert(worker, fence).is_none_or(|before| before < fence),
                "a fence twice"
            );
            let counter = tables.counter(&admin, &key).await;
            ensure!(counter >= i64::try_from(fence)?, "{key}: {counter} after {fence}");
            if let Some(lock_id) = held {
                // We held the lock when the server died; at most its release had been sent.
                if !backend.release(ReleaseRequest::new(lock_id)).await?.is_released() {
                    ensure!(!is_refused(&backend, &key).await, "whose?");
                }
            }
        }
        admin.batch_execute(&format!("DELETE FROM {}", tables.locks)).await?;
    }
    Ok(())
}

/// A confirmed lock without later writes, and then the crash.
#[tokio::test]
async fn a_lock_outlives_the_crash() -> Result<()> {
    let mut server = PostgresServer::builder()
        .config("synchronous_commit = off")
        .config("wal_writer_delay = 10s")
        .config("wal_writer_flush_after = 1GB")
        .start()?;
    let backend = Tables::fresh().backend_at(&server.url(), 2).await;
    let lock = take(&backend, "key").await;
    let ended = take(&backend, "ended").await;
    let extended = backend.extend(ExtendRequest::new(lock.lock_id, 60 * MINUTE)?).await?;
    ensure!(backend.release(ReleaseRequest::new(ended.lock_id)).await?.is_released());
    server.kill()?;
    server.restart()?;
    let found = backend.lookup(LookupRequest::by_key("key")?).await?.context("the lock")?;
    ensure!(
        extended == syncguard_postgres::ExtendResult::Extended { expires_at: found.expires_at }
    );
    ensure!(backend.lookup(LookupRequest::by_key("ended")?).await?.is_none());
    ensure!(take(&backend, "ended").await.fence.get() == 2);
    Ok(())
}

/// A server that stops answering: the error comes in time, the connection is not used again, and locks that were
/// taken meanwhile are given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_given_up_in_time() -> Result<()> {
    let mut server = PostgresServer::start()?;
    let tables = Tables::fresh();
    drop(tables.backend_at(&server.url(), 1).await);
    let (short, pool) = (Duration::from_millis(300), pool(&server.url(), 2));
    let options = tables.options().with_statement_timeout(short).with_pool_wait_timeout(short);
    let hasty = PostgresBackend::from_pool(pool.clone(), options).expect("options in range");
    let options = tables.options().with_statement_timeout(MINUTE).with_pool_wait_timeout(MINUTE);
    let backend = PostgresBackend::from_pool(pool, options).expect("options in range");
    let lock = take(&backend, "held").await;
    server.pause()?;
    let started = Instant::now();
    let error = hasty.acquire(request("key", MINUTE)).await.unwrap_err();
    ensure!(error.code() == ErrorCode::NetworkTimeout, "{error}");
    let error = hasty.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await.unwrap_err();
    ensure!(error.code() == ErrorCode::NetworkTimeout, "{error}");
    ensure!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    server.resume()?;
    let admin = connect(&server.url()).await;
    ensure!(backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?.is_extended());
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    // The acquire without an answer may have been carried out when the server woke up.
    settles(&admin, &tables).await?;
    is_quiet(&admin, &tables).await
}

/// The server is shut down in order, and comes back.
#[tokio::test]
async fn a_restart_is_noticed_and_survived() -> Result<()> {
    let mut server = PostgresServer::start()?;
    let backend = Tables::fresh().backend_at(&server.url(), 4).await;
    let lock = take(&backend, "key").await;
    server.stop()?;
    let error = backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await.unwrap_err();
    ensure!(error.code() == ErrorCode::ServiceUnavailable && error.is_retryable(), "{error}");
    server.restart()?;
    // The first caller gets no error, because dead connections are not handed out.
    ensure!(backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?.is_extended());
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

/// A process that holds one lock and waits for another is killed: the first lock expires, and so does the second if
/// the server still grants it; no session stays behind.
#[tokio::test]
async fn a_killed_process_leaves_what_runs_out() -> Result<()> {
    const CHILD: &str = "SYNCGUARD_TEST_CHILD";
    let options = |tables: &str| {
        PostgresOptions::new().with_tables(format!("l_{tables}"), format!("f_{tables}"))
    };
    if let Ok(child) = std::env::var(CHILD) {
        let (url, tables) = child.split_once(' ').context("where")?;
        let backend =
            PostgresBackend::from_pool(pool(url, 2), options(tables)).expect("options in range");
        let _ = take(&backend, "held").await;
        let _ = take(&backend, "wanted").await;
        bail!("nobody killed it");
    }

    let tables = Tables { locks: "l_killed".to_owned(), fences: "f_killed".to_owned() };
    let backend = tables.backend(2).await;
    let admin = connect(&shared().url()).await;
    let mut other = connect(&shared().url()).await;
    let turn = other.transaction().await?;
    turn.execute("SELECT pg_advisory_xact_lock(hashtext('wanted'))", &[]).await?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "postgres::crashes::a_killed_process_leaves_what_runs_out"])
        .env(CHILD, format!("{} killed", shared().url()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    waiters(&admin, &tables.locks, 1).await;
    child.kill()?;
    child.wait()?;
    turn.commit().await?;
    is_quiet(&admin, &tables).await?;
    ensure!(is_refused(&backend, "held").await, "it was held");
    for key in ["held", "wanted"] {
        tables.age(&admin, key, 61_000).await;
        let lock = take(&backend, key).await;
        let counter = tables.counter(&admin, key).await;
        ensure!(i64::try_from(lock.fence.get())? == counter && counter <= 2, "{key}: {counter}");
    }
    Ok(())
}
