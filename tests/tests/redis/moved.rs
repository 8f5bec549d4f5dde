//! The server is no longer the master, and connections to it stay open.

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_redis::contract::WatchRequest;
use syncguard_redis::{ErrorCode, Key, LockBackend as _, RedisBackend, RedisOptions};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::{RedisServer, Sentinel};

use super::tools::{acquire, extend, over_client, pair, patient, release, swap, until_ok, url};

#[tokio::test]
async fn an_answer_of_a_replica_leads_to_the_new_master() -> Result<()> {
    for connections in [1, 3] {
        let (master, replica) = pair()?;
        let name = FaultProxy::start(master.port())?;
        let options = RedisOptions::new().with_connections(connections).with_holder("");
        let backend = RedisBackend::connect_with(&url(name.port()), options).await?;
        let held = acquire(&backend, "held").await?;
        swap(&master, &replica)?;
        name.lead_to(replica.port());
        let before = name.counters().connections;
        let error = extend(&backend, &held).await.unwrap_err();
        assert!(error.message().contains("is a replica"), "{error:?}");
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
        assert!(!error.is_outcome_unknown(), "{error:?}");
        // One failed call, on however many connections.
        for _ in 0..2 * connections {
            assert!(extend(&backend, &held).await?.is_extended());
        }
        let _other = acquire(&backend, "other").await?;
        assert_eq!(name.counters().connections - before, connections as u64);
        assert!(release(&backend, &held).await?);
    }
    Ok(())
}

/// Other answers that say the same: the master of the old connection was cut off from its replicas, or the replica
/// from its master.
#[tokio::test]
async fn a_server_that_was_cut_off_is_left() -> Result<()> {
    for (setting, value, says) in [
        ("min-replicas-to-write", "1", "too few replicas"),
        ("replica-serve-stale-data", "no", "lost its master"),
    ] {
        let (old, new) = (RedisServer::start()?, RedisServer::start()?);
        let name = FaultProxy::start(old.port())?;
        let backend = patient(&url(name.port())).await;
        let _lock = acquire(&backend, "warm").await?;
        old.cli(&["CONFIG", "SET", setting, value])?;
        if says.contains("master") {
            // Nothing listens there.
            old.cli(&["REPLICAOF", "127.0.0.1", "1"])?;
        }
        name.lead_to(new.port());
        let error = acquire(&backend, "k").await.unwrap_err();
        assert!(error.message().contains(says) && !error.is_outcome_unknown(), "{error:?}");
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
        let _lock = acquire(&backend, "k").await?;
        assert_eq!(new.cli(&["GET", "syncguard:fence:syncguard:k"])?, "1");
    }
    Ok(())
}

/// A person demotes the master and tells the Sentinel; nobody cuts connections.
#[tokio::test]
async fn sentinels_are_asked_again() -> Result<()> {
    let (master, replica) = pair()?;
    let sentinel = Sentinel::start(&master, 1)?;
    let backend = patient(&sentinel.url()).await;
    let held = acquire(&backend, "held").await?;
    sentinel.forget_master()?;
    swap(&master, &replica)?;
    sentinel.monitor(&replica, 1)?;
    let error = extend(&backend, &held).await.unwrap_err();
    assert!(error.message().contains("is a replica"), "{error:?}");
    assert!(extend(&backend, &held).await?.is_extended());
    Ok(())
}

#[tokio::test]
async fn signals_follow_to_the_new_master() -> Result<()> {
    let (master, replica) = pair()?;
    let name = FaultProxy::start(master.port())?;
    let backend = patient(&url(name.port())).await;
    let held = acquire(&backend, "held").await?;
    let watch = async || backend.watch(WatchRequest::new(Key::new("held").unwrap())).await;
    let mut old = watch().await.expect("a watch");
    swap(&master, &replica)?;
    // The old master hears nothing of the new one.
    master.cli(&["REPLICAOF", "127.0.0.1", "1"])?;
    name.lead_to(replica.port());
    extend(&backend, &held).await.unwrap_err();
    assert!(extend(&backend, &held).await?.is_extended());
    let mut new = watch().await.expect("a watch");
    old.changed().await;
    assert!(old.is_over());
    let other = patient(&replica.url()).await;
    assert!(!new.is_over() && new.is_locked);
    assert!(release(&other, &held).await?);
    new.changed().await;
    Ok(())
}

/// A client of the program that reconnects for ever is told to reconnect.
#[tokio::test]
async fn a_client_of_the_program_connects_again() -> Result<()> {
    let (master, replica) = pair()?;
    let name = FaultProxy::start(master.port())?;
    let (_, backend) = over_client(&url(name.port())).await?;
    let held = acquire(&backend, "held").await?;
    swap(&master, &replica)?;
    name.lead_to(replica.port());
    let (extended, failures) = until_ok(|| extend(&backend, &held)).await;
    assert!(extended.is_extended() && failures > 0);
    Ok(())
}

/// Only `cargo xtask test --full` runs these.
mod long {
    use super::*;

    /// As long as the name leads to the replica, there is at most one new connection a second.
    #[tokio::test]
    async fn a_name_that_moves_later_is_looked_up_once_a_second() -> Result<()> {
        let (master, replica) = pair()?;
        let name = FaultProxy::start(master.port())?;
        let backend = patient(&url(name.port())).await;
        let held = acquire(&backend, "held").await?;
        swap(&master, &replica)?;
        let (before, mut calls) = (name.counters().connections, 0);
        let started = Instant::now();
        while name.counters().connections - before < 2 {
            assert!(extend(&backend, &held).await.is_err());
            calls += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let opened = name.counters().connections - before;
        assert!(u128::from(opened) <= started.elapsed().as_millis() / 1000 + 1 && calls > 2);
        name.lead_to(replica.port());
        let (extended, _) = until_ok(|| extend(&backend, &held)).await;
        assert!(extended.is_extended());
        Ok(())
    }
}
