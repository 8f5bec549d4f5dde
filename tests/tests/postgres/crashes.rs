//! Servers that die, stop, fall silent, and come back.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{ExtendRequest, LookupRequest};
use syncguard_postgres::{ErrorCode, ExtendResult, LockBackend as _};
use syncguard_test_services::postgres::PostgresServer;

use crate::postgres::support::{
    MINUTE, Tables, connect, extend, is_quiet, over_pool, pool, release, request, settles, take,
};

/// The server is killed with all data that was not on disk, although the sessions asked for no durability: the last
/// thing that it confirmed, of each kind, is still there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_forgets_nothing_that_was_confirmed() -> Result<()> {
    let mut server = PostgresServer::builder()
        .config("synchronous_commit = off")
        .config("wal_writer_delay = 10s")
        .config("wal_writer_flush_after = 1GB")
        .start()?;
    let backend = Tables::fresh().backend_at(&server.url(), 2).await;
    let mut crash = || {
        server.kill()?;
        server.restart()
    };
    let lookup = || backend.lookup(LookupRequest::by_key("key").expect("a request"));

    let lock = take(&backend, "key").await;
    crash()?;
    let found = lookup().await?.context("the lock")?;
    ensure!((found.fence, found.expires_at) == (lock.fence, lock.expires_at));

    let extended = backend.extend(ExtendRequest::new(lock.lock_id, 60 * MINUTE)?).await?;
    crash()?;
    let expires_at = lookup().await?.context("the lock")?.expires_at;
    ensure!(extended == ExtendResult::Extended { expires_at });

    release(&backend, lock.lock_id).await?;
    crash()?;
    ensure!(lookup().await?.is_none());
    ensure!(take(&backend, "key").await.fence.get() == 2);
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
    let hasty = over_pool(pool.clone(), options);
    let options = tables.options().with_statement_timeout(MINUTE).with_pool_wait_timeout(MINUTE);
    let backend = over_pool(pool, options);
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
    extend(&backend, lock.lock_id).await?;
    release(&backend, lock.lock_id).await?;
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
    extend(&backend, lock.lock_id).await?;
    release(&backend, lock.lock_id).await?;
    Ok(())
}
