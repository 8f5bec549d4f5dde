//! Lists of addresses whose first members are silent.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use syncguard_redis::{RedisBackend, RedisOptions};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::{RedisCluster, RedisServer, Sentinel};

use super::tools::{acquire, extend, until_ok, url};
use crate::troubles::silent::Silent;

/// Connects with a silent address before the URL's own, although the operation timeout is longer than the whole connect
/// timeout.
async fn connect(url: &str, silent: &Silent) -> RedisBackend {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (first, query) = rest.split_once('?').unwrap_or((rest, ""));
    let url = format!("{scheme}://127.0.0.1:{}?node={first}&{query}", silent.port());
    let options = RedisOptions::new()
        .with_operation_timeout(Duration::from_secs(300))
        .with_connect_timeout(Duration::from_secs(60));
    RedisBackend::connect_with(&url, options).await.expect("the second address")
}

#[tokio::test]
async fn a_silent_sentinel_or_node_holds_up_nobody() -> Result<()> {
    let silent = Silent::after_the_handshake((Ipv4Addr::LOCALHOST, 0)).await?;
    let master = RedisServer::start()?;
    let sentinel = Sentinel::start(&master, 1)?;
    let backend = connect(&sentinel.url(), &silent).await;
    let held = acquire(&backend, "held").await?;
    // Also while running.
    master.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
    assert!(until_ok(|| extend(&backend, &held)).await.0.is_extended());

    let cluster = RedisCluster::start(3)?;
    let backend = connect(&cluster.url(), &silent).await;
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
        let options =
            RedisOptions::new().with_operation_timeout(limit).with_connect_timeout(60 * limit);
        let backend = RedisBackend::connect_with(&url(proxy.port()), options).await?;
        let held = acquire(&backend, "held").await?;
        // Four round trips take longer than a call.
        proxy.set_latency(Duration::from_millis(150), Duration::from_millis(150));
        proxy.sever();
        let (extended, failures) = until_ok(|| extend(&backend, &held)).await;
        assert!(extended.is_extended() && failures > 0, "{failures}");
        Ok(())
    }
}
