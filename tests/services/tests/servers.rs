//! The faults of the servers themselves: a kill, a restart, a stop, a pooler between.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::{Authentication, PgBouncer, PoolMode, PostgresServer};
use syncguard_test_services::redis::{AppendOnly, RedisServer};

/// Sends bytes to a server that is stopped, which answers once it goes on.
fn is_answered_late(
    mut session: TcpStream,
    request: &[u8],
    answer: &[u8],
    resume: impl FnOnce() -> Result<()>,
) -> Result<()> {
    session.write_all(request)?;
    session.set_read_timeout(Some(Duration::from_millis(300)))?;
    let silence = session.read(&mut [0]).unwrap_err();
    assert_eq!(silence.kind(), ErrorKind::WouldBlock);
    resume()?;
    session.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut got = vec![0; answer.len()];
    session.read_exact(&mut got)?;
    assert_eq!(got, answer);
    Ok(())
}

#[test]
fn redis_loses_what_is_not_in_its_file_and_answers_late() -> Result<()> {
    for (append_only, kept) in [(AppendOnly::Off, "0"), (AppendOnly::Always, "1")] {
        let mut redis = RedisServer::builder().append_only(append_only).start()?;
        let (port, pid) = (redis.port(), redis.pid()?);
        redis.cli(&["SET", "key", "value"])?;
        redis.kill()?;
        assert!(redis.cli(&["PING"]).is_err() && redis.pid().is_err());
        redis.restart()?;
        assert!(redis.port() == port && redis.pid()? != pid);
        assert_eq!(redis.cli(&["EXISTS", "key"])?, kept, "{append_only:?}");
        redis.pause()?;
        let session = TcpStream::connect(("127.0.0.1", port))?;
        is_answered_late(session, b"PING\r\n", b"+PONG\r\n", || redis.resume())?;
    }
    Ok(())
}

#[test]
fn postgres_keeps_what_it_has_and_its_open_sessions_answer_late() -> Result<()> {
    let mut postgres = PostgresServer::start()?;
    let pid = postgres.pid()?;
    postgres.psql("CREATE TABLE kept (x int); INSERT INTO kept VALUES (7)")?;
    postgres.kill()?;
    assert!(postgres.psql("SELECT 1").is_err());
    postgres.restart()?;
    assert_ne!(postgres.pid()?, pid);
    assert_eq!(postgres.psql("SELECT x FROM kept")?, "7");

    let mut session = TcpStream::connect(("127.0.0.1", postgres.port()))?;
    session.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0")?;
    // Its process is a child of the server, in a group of its own. It reports when it is ready.
    let mut answer = Vec::new();
    while !answer.ends_with(b"Z\0\0\0\x05I") {
        let mut byte = [0];
        session.read_exact(&mut byte)?;
        answer.extend(byte);
    }
    postgres.pause()?;
    is_answered_late(session, b"Q\0\0\0\x0dSELECT 1\0", b"T", || postgres.resume())
}

#[test]
fn a_pooler_shares_connections_by_the_transaction_and_comes_back() -> Result<()> {
    let scram = Authentication::Scram;
    let postgres = PostgresServer::builder().authentication(scram).start()?;
    let method = "SELECT DISTINCT auth_method FROM pg_hba_file_rules WHERE type = 'host'";
    assert_eq!(postgres.psql(method)?, "scram-sha-256");
    let mut pooler = PgBouncer::start(&postgres, PoolMode::Transaction)?;
    assert!(pooler.admin("SHOW POOLS")?.contains("|transaction"));
    pooler.kill()?;
    assert!(pooler.psql("SELECT 1").is_err());
    pooler.restart()?;
    assert_eq!(pooler.psql("SELECT 2")?, "2");
    Ok(())
}

#[test]
fn the_emulator_comes_back_empty_and_answers_late() -> Result<()> {
    let mut emulator = FirestoreEmulator::start()?;
    let pid = emulator.pid()?;
    emulator.kill()?;
    assert!(emulator.get("/").is_err());
    emulator.restart()?;
    assert_ne!(emulator.pid()?, pid);
    assert_eq!(emulator.get("/v1/projects/p/databases/(default)/documents/locks")?, "{\n}\n");
    emulator.pause()?;
    let session = TcpStream::connect(("127.0.0.1", emulator.port()))?;
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", emulator.host_port());
    is_answered_late(session, request.as_bytes(), b"HTTP/1.1 200", || emulator.resume())
}

#[test]
fn etcd_elects_another_leader_and_keeps_what_it_has() -> Result<()> {
    let mut etcd = EtcdCluster::start(3)?;
    etcd.post(0, "kv/put", r#"{"key":"a2V5","value":"dmFsdWU="}"#)?;
    let first = etcd.leader()?;
    etcd.move_leader()?;
    assert_ne!(etcd.leader()?, first);
    let leader = etcd.leader()?;
    etcd.kill(leader)?;
    let next = etcd.leader()?;
    assert_ne!(next, leader);
    etcd.pause(next)?;
    assert!(!etcd.is_awake(next));
    etcd.resume(next)?;
    etcd.restart(leader)?;
    for member in 0..etcd.size() {
        etcd.kill(member)?;
    }
    for member in 0..etcd.size() {
        etcd.start_again(member)?;
    }
    etcd.compact(etcd.leader()?)?;
    assert!(etcd.post(0, "kv/range", r#"{"key":"a2V5"}"#)?.contains("dmFsdWU="));
    Ok(())
}
