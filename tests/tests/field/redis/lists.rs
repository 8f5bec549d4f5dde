//! Lists of addresses whose first members are silent.

use std::net::TcpListener;
use std::time::Duration;

use anyhow::Result;
use syncguard_redis::{RedisBackend, RedisOptions};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::{RedisCluster, RedisServer, Sentinel};

use super::tools::{acquire, extend, until_ok};

/// A port whose connections are never answered.
fn silent() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// The URL with a silent address before its own.
fn with_silent_first(url: &str, port: u16) -> String {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (first, query) = rest.split_once('?').unwrap_or((rest, ""));
    format!("{scheme}://127.0.0.1:{port}?node={first}&{query}")
}

/// Connects although the command timeout is longer than the whole connect timeout.
async fn connect(url: &str) -> RedisBackend {
    let options = RedisOptions::new()
        .with_command_timeout(Duration::from_secs(300))
        .with_connect_timeout(Duration::from_secs(60));
    RedisBackend::connect_with(url, options).await.expect("the second address")
}

#[tokio::test]
async fn a_silent_sentinel_holds_up_nobody() -> Result<()> {
    let (_listener, silent) = silent()?;
    let master = RedisServer::start()?;
    let sentinel = Sentinel::start(&master, 1)?;
    let backend = connect(&with_silent_first(&sentinel.url(), silent)).await;
    let held = acquire(&backend, "held").await?;
    // Also while running.
    master.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
    assert!(until_ok(|| extend(&backend, &held)).await.0.is_extended());
    Ok(())
}

#[tokio::test]
async fn a_silent_node_holds_up_no_cluster() -> Result<()> {
    let (_listener, silent) = silent()?;
    let cluster = RedisCluster::start(3)?;
    let backend = connect(&with_silent_first(&cluster.url(), silent)).await;
    let _held = acquire(&backend, "held").await?;
    Ok(())
}

/// Only `cargo xtask test --full` runs these.
mod long {
    use super::*;

    /// An attempt that takes longer than one caller waits goes on for the next.
    #[tokio::test]
    async fn a_slow_connection_is_opened_for_the_next_caller() -> Result<()> {
        let server = RedisServer::start()?;
        let proxy = FaultProxy::start(server.port())?;
        let limit = Duration::from_secs(1);
        let url = format!("redis://127.0.0.1:{}", proxy.port());
        let options =
            RedisOptions::new().with_command_timeout(limit).with_connect_timeout(60 * limit);
        let backend = RedisBackend::connect_with(&url, options).await?;
        let held = acquire(&backend, "held").await?;
        // Four round trips take longer than a call.
        proxy.set_latency(Duration::from_millis(150), Duration::from_millis(150));
        proxy.sever();
        let (extended, failures) = until_ok(|| extend(&backend, &held)).await;
        assert!(extended.is_extended() && failures > 0, "{failures}");
        Ok(())
    }
}
