//! A cluster's client, which may send a request twice.

use std::time::Duration;

use anyhow::{Context as _, Result};
use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::types::config::{Config, ConnectionConfig, ReconnectPolicy};
use syncguard_redis::{ErrorCode, LockBackend as _, RedisBackend, RedisOptions};
use syncguard_test_services::redis::{RedisCluster, RedisServer};
use syncguard_test_services::wait;

use crate::redis::signals::until;
use crate::redis::support::{Raw, request, take};

/// In slot 3300.
const PREFIX: &str = "{b}";

/// Gives slots to a node in this node's view.
fn give(node: &RedisServer, slots: [u16; 2], to: &RedisServer) -> Result<()> {
    let [first, last] = slots.map(|slot| slot.to_string());
    let range = |command| node.cli(&["CLUSTER", command, &first, &last]);
    if node.port() != to.port() {
        return range("DELSLOTSRANGE").map(drop);
    }
    // The other nodes may tell this node of the former owner between the two commands.
    wait::until("the slots", Duration::from_secs(30), || {
        let _ = range("DELSLOTSRANGE");
        Ok(range("ADDSLOTSRANGE").is_ok())
    })?;
    node.cli(&["CLUSTER", "BUMPEPOCH"]).map(drop)
}

/// The first of three nodes has the slot of the prefix.
const FIRST: [u16; 2] = [0, 5460];

#[tokio::test]
async fn an_acquire_that_was_sent_to_two_nodes_is_given_back() -> Result<()> {
    let mut cluster = RedisCluster::start(3)?;
    let owner = cluster.owner_and_other(PREFIX)?.0.port();
    assert_eq!(owner, cluster.nodes()[0].port());
    // The client also asks silent nodes for the slots.
    let impatient = ConnectionConfig {
        connection_timeout: Duration::from_secs(1),
        internal_command_timeout: Duration::from_secs(1),
        ..ConnectionConfig::default()
    };
    let reconnect = ReconnectPolicy::new_constant(0, 50);
    let config = Config::from_url(&cluster.url())?;
    let client = Client::new(config, None, Some(impatient), Some(reconnect));
    client.init().await?;
    let options = RedisOptions::new().with_key_prefix(PREFIX);
    let options = options.with_operation_timeout(Duration::from_secs(30));
    let backend = RedisBackend::from_client(client.clone(), options)?;
    let _ = take(&backend, "warm", 1000).await;

    cluster.nodes_mut()[0].pause()?;
    let acquire = tokio::spawn({
        let backend = backend.clone();
        async move { backend.acquire(request("k", 3_600_000)).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (second, third) = (&cluster.nodes()[1], &cluster.nodes()[2]);
    for node in [second, third] {
        give(node, FIRST, second)?;
        give(node, [16_383, 16_383], second)?;
    }
    // The client meets a moved slot, and so it asks for all slots.
    let raw = Raw(client);
    let name = (0..).map(|number| format!("{{{number}}}"));
    let moved = name.into_iter().find(|name| fred::util::redis_keyslot(name.as_bytes()) == 16_383);
    let moved = moved.context("a name")?;
    let _ = raw.try_send("GET", &[&moved]).await;

    let error = acquire.await?.map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
    assert!(error.message().contains("sent twice"), "{error}");
    assert!(error.is_outcome_unknown(), "{error:?}");
    let name = format!("{PREFIX}:k");
    until("a free key", async || matches!(second.cli(&["EXISTS", &name]).as_deref(), Ok("0")))
        .await;
    assert_eq!(second.cli(&["GET", &format!("{PREFIX}:fence:{name}")])?, "1", "it was granted");
    Ok(())
}
