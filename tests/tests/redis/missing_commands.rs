//! Servers and proxies that lack a command.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{AcquireRequest, ReleaseRequest};
use syncguard::inventory::ListRequest;
use syncguard::redis::{RedisBackend, RedisOptions};
use syncguard::{ErrorCode, LockBackend as _, LockError};
use syncguard_test_services::redis::RedisServer;

async fn connect(missing: &[&str], options: RedisOptions) -> Result<(RedisServer, RedisBackend)> {
    let builder = missing.iter().fold(RedisServer::builder(), |builder, command| {
        builder.config(&format!("rename-command {command} \"\""))
    });
    let server = builder.start()?;
    let backend = RedisBackend::connect_with(&server.url(), options).await?;
    Ok((server, backend))
}

#[track_caller]
fn assert_names(result: Result<(), LockError>, command: &str) {
    let error = result.unwrap_err();
    assert!(error.message().contains(command), "{command}: {error}");
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error:?}");
}

#[tokio::test]
async fn the_error_names_the_command_that_locks_need() -> Result<()> {
    let request = || AcquireRequest::new("key", Duration::from_secs(60));
    for missing in ["EVALSHA", "EVAL", "TIME", "INCR", "SET"] {
        let (_server, backend) = connect(&[missing], RedisOptions::new()).await?;
        assert_names(backend.acquire(request()?).await.map(drop), missing);
    }
    let options = RedisOptions::new().with_wait_replicas(1);
    let (_server, backend) = connect(&["WAIT"], options).await?;
    assert_names(backend.acquire(request()?).await.map(drop), "WAIT");
    let (_server, backend) = connect(&["SCAN"], RedisOptions::new()).await?;
    let inventory = backend.inventory().context("an inventory")?;
    assert_names(inventory.list_locks(ListRequest::new()).await.map(drop), "SCAN");
    Ok(())
}

#[tokio::test]
async fn locks_work_without_the_commands_that_only_help() -> Result<()> {
    let missing = ["INFO", "CONFIG", "CLIENT", "SCAN", "WAIT", "PERSIST"];
    let (_server, backend) = connect(&missing, RedisOptions::new()).await?;
    let granted = backend.acquire(AcquireRequest::new("key", Duration::from_secs(60))?).await?;
    let lock = granted.acquired().context("a free lock")?;
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}
