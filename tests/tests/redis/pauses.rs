//! Processes that stood still, and runtimes that end before their backend.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fred::interfaces::ClientLike as _;
use syncguard_redis::contract::IsLockedRequest;
use syncguard_redis::{ErrorCode, LockBackend as _};
use syncguard_test_services::redis::{RedisCluster, RedisServer};
use tokio::runtime::{Builder, Runtime};

use super::tools::{acquire, extend, over_client, patient, release, url};

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// As `#[tokio::test]` does: each call in a runtime of its own, which ends after it.
#[test]
fn a_backend_on_a_cluster_outlives_the_runtime_of_its_connect() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let backend = runtime()?.block_on(patient(&cluster.url()));
    for _ in 0..2 {
        let lock = runtime()?.block_on(acquire(&backend, "k"))?;
        assert!(runtime()?.block_on(extend(&backend, &lock))?.is_extended());
        assert!(runtime()?.block_on(release(&backend, &lock))?);
    }
    Ok(())
}

/// A client of the program stays the program's: the error says what has happened.
#[test]
fn a_client_of_the_program_whose_runtime_has_ended_is_said_to_have() -> Result<()> {
    let server = RedisServer::start()?;
    let (client, backend) = runtime()?.block_on(async {
        let (client, backend) = over_client(&url(server.port())).await?;
        let lock = acquire(&backend, "k").await?;
        release(&backend, &lock).await?;
        anyhow::Ok((client, backend))
    })?;
    let error = runtime()?.block_on(acquire(&backend, "k")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error:?}");
    assert!(error.message().contains("its runtime has ended"), "{error:?}");
    // The program connects it again.
    runtime()?.block_on(async {
        client.init().await?;
        acquire(&backend, "k").await.map(drop).context("acquired")
    })
}

/// Blocks the only thread while the server closes its connections, as a process does that is frozen.
fn freeze(server: &RedisServer) -> Result<()> {
    server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
    thread::sleep(Duration::from_millis(1100));
    Ok(())
}

/// Only `cargo xtask test --full` runs these.
mod long {
    use super::*;

    #[tokio::test]
    async fn the_first_call_after_a_pause_succeeds() -> Result<()> {
        let server = RedisServer::start()?;
        let backend = patient(&server.url()).await;
        let lock = acquire(&backend, "warm").await?;
        freeze(&server)?;
        let held = acquire(&backend, "held").await?;
        freeze(&server)?;
        assert!(extend(&backend, &held).await?.is_extended());
        freeze(&server)?;
        assert!(backend.is_locked(IsLockedRequest::new("held")?).await?);
        freeze(&server)?;
        assert!(release(&backend, &held).await? && release(&backend, &lock).await?);
        Ok(())
    }
}
