//! The names of connections in `CLIENT LIST`, by which operators find the holder.

use anyhow::Result;
use syncguard_redis::contract::IsLockedRequest;
use syncguard_redis::{LockBackend as _, RedisBackend, RedisOptions};
use syncguard_test_services::redis::{RedisCluster, RedisServer};

use crate::redis::sharded;
use crate::redis::signals::{field, until, watch};
use crate::redis::support::{Raw, backend_with, request, take};

/// The names that an answer to `CLIENT LIST` contains.
fn names(list: &str) -> Vec<&str> {
    let names = list.lines().filter_map(|line| field(line, "name="));
    names.filter(|name| !name.is_empty()).collect()
}

/// Waits until as many connections have this name, and no other connection has a name.
async fn until_named(raw: &Raw, name: &str, count: usize) {
    until("named connections", async || {
        let list = raw.text("CLIENT", &["LIST"]).await.expect("a list");
        let names = names(&list);
        names.len() == count && names.iter().all(|other| *other == name)
    })
    .await;
}

#[tokio::test]
async fn connections_are_named_after_the_holder() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let options = RedisOptions::new().with_connections(2).with_holder("büro 7");
    let backend = backend_with(&server, options).await;
    until_named(&raw, "syncguard:b_ro_7", 2).await;

    // The connection for signals too.
    let _lock = take(&backend, "k", 60_000).await;
    let watched = watch(&backend, "k").await;
    assert!(watched.is_some());
    until_named(&raw, "syncguard:b_ro_7", 3).await;

    // And the connections in place of lost ones.
    drop(watched);
    raw.send("CLIENT", &["KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    // Each connection is opened by its next call.
    for _ in 0..4 {
        let _ = backend.is_locked(IsLockedRequest::new("k")?).await;
    }
    until_named(&raw, "syncguard:b_ro_7", 2).await;
    drop(backend);
    until_named(&raw, "syncguard:b_ro_7", 0).await;
    Ok(())
}

#[tokio::test]
async fn connections_to_each_node_of_a_cluster_are_named() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let backend =
        sharded::connect_with(&cluster, RedisOptions::new().with_holder("web-7f9c")).await?;
    until("named connections", async || {
        cluster.nodes().iter().all(|node| {
            let list = node.cli(&["CLIENT", "LIST"]).expect("a list");
            names(&list) == ["syncguard:web-7f9c"]
        })
    })
    .await;
    drop(backend);
    Ok(())
}

#[tokio::test]
async fn a_connection_without_the_right_to_a_name_works() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let user = ["SETUSER", "locks", "on", ">password", "~*", "+@all", "-client|setname"];
    raw.send("ACL", &user).await;
    let url = format!("redis://locks:password@127.0.0.1:{}", server.port());
    let backend = RedisBackend::connect(&url).await?;
    assert!(backend.acquire(request("k", 60_000)).await?.is_acquired());
    assert!(watch(&backend, "k").await.is_some());
    let refused = raw.text("INFO", &["commandstats"]).await.expect("statistics");
    let of_names = |line: &&str| line.starts_with("cmdstat_client|setname:");
    let refused = refused.lines().find(of_names).expect("the command was sent");
    assert!(refused.contains("calls=0,"), "{refused}");
    until_named(&raw, "", 0).await;
    Ok(())
}
