//! The troubles that a lock of the default TTL outlives.

use std::time::Duration;

use anyhow::Result;
use syncguard_redis::RedisBackend;
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::{AppendOnly, RedisServer};
use tokio::time::sleep;

use crate::redis::tools::{pair, swap, url};
use crate::troubles::long::outlives;

async fn the_server_restarts() -> Result<()> {
    let mut server = RedisServer::builder().append_only(AppendOnly::Always).start()?;
    let backend = RedisBackend::connect(&server.url()).await?;
    let trouble = async || {
        server.kill()?;
        sleep(Duration::from_secs(12)).await;
        server.restart()
    };
    outlives(&backend, "the server crashes and is away for 12 s", trouble).await
}

async fn the_password_changes() -> Result<()> {
    let server = RedisServer::start()?;
    server.cli(&["ACL", "SETUSER", "app", "on", ">first", "~*", "&*", "+@all"])?;
    let url = format!("redis://app:first@127.0.0.1:{}", server.port());
    let backend = RedisBackend::connect(&url).await?;
    let trouble = async || {
        server.cli(&["ACL", "SETUSER", "app", "<first", ">second"])?;
        server.cli(&["CLIENT", "KILL", "USER", "app"])?;
        sleep(Duration::from_secs(15)).await;
        server.cli(&["ACL", "SETUSER", "app", ">first"]).map(drop)
    };
    outlives(&backend, "the password is another one for 15 s", trouble).await
}

async fn a_replica_takes_over() -> Result<()> {
    let (master, replica) = pair()?;
    let proxy = FaultProxy::start(master.port())?;
    let backend = RedisBackend::connect(&url(proxy.port())).await?;
    let trouble = async || {
        swap(&master, &replica)?;
        sleep(Duration::from_secs(12)).await;
        proxy.lead_to(replica.port());
        Ok(())
    };
    outlives(&backend, "the name leads to a replica for 12 s", trouble).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_thirty_seconds_outlives_these_troubles() -> Result<()> {
    tokio::try_join!(the_server_restarts(), the_password_changes(), a_replica_takes_over(),)?;
    Ok(())
}
