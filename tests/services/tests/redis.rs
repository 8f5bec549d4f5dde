//! Starts Redis with each option, uses it and breaks it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;
use syncguard_test_services::redis::{AppendOnly, RedisCluster, RedisServer, Sentinel};

#[test]
fn answers_and_comes_back_on_its_port() -> Result<()> {
    let mut redis = RedisServer::start()?;
    let (port, pid) = (redis.port(), redis.pid()?);
    assert_eq!(redis.cli(&["PING"])?, "PONG");

    redis.stop()?;
    assert!(redis.cli(&["PING"]).is_err());
    assert!(redis.pid().is_err());

    redis.restart()?;
    assert_eq!(redis.port(), port);
    assert_ne!(redis.pid()?, pid);
    assert_eq!(redis.cli(&["PING"])?, "PONG");
    Ok(())
}

#[test]
fn a_kill_loses_what_is_not_in_the_append_only_file() -> Result<()> {
    for (append_only, kept) in [(AppendOnly::Off, "0"), (AppendOnly::Always, "1")] {
        let mut redis = RedisServer::builder().append_only(append_only).start()?;
        redis.cli(&["SET", "key", "value"])?;
        redis.kill()?;
        redis.restart()?;
        assert_eq!(redis.cli(&["EXISTS", "key"])?, kept, "{append_only:?}");
    }
    Ok(())
}

#[test]
fn a_paused_server_answers_late() -> Result<()> {
    let mut redis = RedisServer::start()?;
    redis.pause()?;
    let mut client = TcpStream::connect(("127.0.0.1", redis.port()))?;
    client.write_all(b"PING\r\n")?;
    client.set_read_timeout(Some(Duration::from_millis(300)))?;
    let mut answer = [0; 7];
    let silence = client.read(&mut answer).unwrap_err();
    assert_eq!(silence.kind(), ErrorKind::WouldBlock);

    redis.resume()?;
    client.set_read_timeout(Some(Duration::from_secs(10)))?;
    client.read_exact(&mut answer)?;
    assert_eq!(&answer, b"+PONG\r\n");
    Ok(())
}

#[test]
fn options_reach_the_server() -> Result<()> {
    let redis = RedisServer::builder()
        .password("s3cret")
        .max_memory("5mb", "allkeys-lru")
        .snapshots(true)
        .append_only(AppendOnly::EverySecond)
        .config("databases 3")
        .start()?;
    assert!(redis.url().starts_with("redis://:s3cret@127.0.0.1:"));
    let option = |name| redis.cli(&["CONFIG", "GET", name]);
    assert_eq!(option("maxmemory")?, "maxmemory\n5242880");
    assert_eq!(option("maxmemory-policy")?, "maxmemory-policy\nallkeys-lru");
    assert_eq!(option("appendfsync")?, "appendfsync\neverysec");
    assert_eq!(option("save")?, "save\n3600 1 300 100 60 10000");
    assert_eq!(option("databases")?, "databases\n3");
    let refused = redis.cli(&["SELECT", "3"]).unwrap_err().to_string();
    assert!(refused.contains("out of range"), "{refused}");
    Ok(())
}

#[test]
fn a_sentinel_promotes_the_replica() -> Result<()> {
    let mut master = RedisServer::builder().password("s3cret").start()?;
    let replica = RedisServer::builder().password("s3cret").replica_of(&master).start()?;
    let sentinel = Sentinel::start(&master, 1)?;
    sentinel.wait_for_replicas(1)?;
    assert_eq!(sentinel.master_port()?, master.port());

    master.kill()?;
    assert_eq!(sentinel.wait_for_failover(master.port())?, replica.port());
    assert_eq!(replica.cli(&["SET", "key", "value"])?, "OK");
    Ok(())
}

#[test]
fn a_cluster_serves_every_slot_and_survives_a_restart() -> Result<()> {
    let mut cluster = RedisCluster::start(3)?;
    for node in cluster.nodes() {
        let info = node.cli(&["CLUSTER", "INFO"])?;
        assert!(info.contains("cluster_slots_ok:16384"), "{info}");
    }
    cluster.nodes_mut()[1].kill()?;
    cluster.nodes_mut()[1].restart()?;
    cluster.wait_until_ok()
}
