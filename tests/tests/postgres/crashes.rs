//! Servers that die and come back.

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{ExtendRequest, LookupRequest};
use syncguard_postgres::{ExtendResult, LockBackend as _};
use syncguard_test_services::postgres::PostgresServer;

use crate::postgres::support::{MINUTE, Tables, release, take};

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
