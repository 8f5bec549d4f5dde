//! The real servers carry out requests that arrive after their sender has gone.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::{FaultProxy, Hold};
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::wait;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Holds the bytes of `request` on a connection that has sent and received `greeting`, closes the connection, and
/// returns the proxy.
fn held(port: u16, greeting: &[u8], request: &[u8]) -> Result<FaultProxy> {
    let proxy = FaultProxy::start(port)?;
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()))?;
    client.set_read_timeout(Some(TIMEOUT))?;
    client.write_all(greeting)?;
    ensure!(client.read(&mut [0; 4096])? > 0, "no answer");
    proxy.hold(Hold::Open);
    client.write_all(request)?;
    wait::until("the request", TIMEOUT, || Ok(proxy.held() == 1))?;
    Ok(proxy)
}

#[test]
fn redis_carries_out_a_late_request() -> Result<()> {
    let redis = RedisServer::start()?;
    let proxy = held(redis.port(), b"PING\r\n", b"SET key late\r\n")?;
    redis.cli(&["SET", "key", "later"])?;
    assert_eq!(proxy.deliver(), 1);
    wait::until("the late request", TIMEOUT, || Ok(redis.cli(&["GET", "key"])? == "late"))
}

#[test]
fn firestore_carries_out_a_late_request() -> Result<()> {
    let emulator = FirestoreEmulator::start()?;
    let greeting = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &*frame(SETTINGS, 0, 0, b"")].concat();
    // The emulator sometimes cancels a request if its sender ends too early.
    for number in 0..5 {
        let name = format!("projects/p/databases/(default)/documents/locks/{number}");
        let proxy = held(emulator.port(), &greeting, &commit(&name)?)?;
        let document = || emulator.get(&format!("/v1/{name}")).is_ok();
        assert!(!document());
        assert_eq!(proxy.deliver(), 1);
        wait::until("the late request", TIMEOUT, || Ok(document()))?;
    }
    Ok(())
}

/// A `Commit` over gRPC that writes an empty document, behind the answer to the server's settings.
fn commit(document: &str) -> Result<Vec<u8>> {
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/google.firestore.v1.Firestore/Commit"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(0);
        for part in [name, value] {
            head.push(u8::try_from(part.len())?);
            head.extend_from_slice(part.as_bytes());
        }
    }
    let write = field(1, &field(1, document.as_bytes())?)?;
    let request = [field(1, b"projects/p/databases/(default)")?, field(2, &write)?].concat();
    let message = [&[0, 0, 0, 0, u8::try_from(request.len())?], &*request].concat();
    Ok([
        frame(SETTINGS, ACK, 0, b""),
        frame(HEADERS, END_HEADERS, 1, &head),
        frame(DATA, END_STREAM, 1, &message),
    ]
    .concat())
}

/// A short field of a protobuf message.
fn field(tag: u8, content: &[u8]) -> Result<Vec<u8>> {
    Ok([&[tag << 3 | 2, u8::try_from(content.len())?], content].concat())
}

/// A short frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, content: &[u8]) -> Vec<u8> {
    let [.., high, low] = content.len().to_be_bytes();
    [&[0, high, low, kind, flags, 0, 0, 0, stream], content].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

#[test]
fn postgres_carries_out_a_late_request() -> Result<()> {
    let postgres = PostgresServer::start()?;
    postgres.psql("CREATE TABLE late (x int)")?;
    // The length includes itself, but not the type before it.
    let start = b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0";
    let query = b"Q\0\0\0\x21INSERT INTO late VALUES (1);\0";
    let proxy = held(postgres.port(), start, query)?;
    let count = || postgres.psql("SELECT count(*) FROM late");
    assert_eq!(count()?, "0");
    assert_eq!(proxy.deliver(), 1);
    wait::until("the late request", TIMEOUT, || Ok(count()? == "1"))
}
