//! Redis and Valkey, by a replica that takes over, and in place.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use syncguard_test_services::fetch::programs;
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::{AppendOnly, RedisServer};

use super::load::Load;

fn old() -> Result<Option<PathBuf>> {
    programs("redis=7.0.15")
}

/// `FAILOVER` lets no write get lost, so fences stay.
async fn a_replica_takes_over(newer: &str) -> Result<()> {
    let master = RedisServer::builder().programs(old()?).start()?;
    let name = FaultProxy::start(master.port())?;
    let load = Load::start(&format!("redis://127.0.0.1:{}", name.port())).await?;
    let replica = RedisServer::builder().programs(programs(newer)?).replica_of(&master).start()?;
    load.goes_on().await;
    master.fail_over_to(&replica)?;
    name.lead_to(replica.port());
    load.goes_on().await;
    drop(master);
    load.end(Duration::from_secs(30)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_replica_takes_over() -> Result<()> {
    a_replica_takes_over("redis=8.2.3").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_of_another_make_takes_over() -> Result<()> {
    a_replica_takes_over("valkey=9.1.2").await
}

/// Another program reads the append-only file of the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_program_after_the_other_goes_on_with_the_file() -> Result<()> {
    for newer in ["redis=8.2.3", "valkey=9.1.2"] {
        let server = RedisServer::builder().append_only(AppendOnly::Always);
        let mut server = server.programs(old()?).start()?;
        let load = Load::start(&server.url()).await?;
        server.upgrade(programs(newer)?)?;
        load.end(Duration::from_secs(30)).await?;
    }
    Ok(())
}
