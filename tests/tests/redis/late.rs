//! Requests that are carried out after their sender has given them up, or after later requests.
//!
//! Each rule was disabled once, in the Lua or in the Rust, to see its tests fail: the deadline, the expected expiry,
//! the end of the clean-up, the second sending, and the guard over a lock that is over.

mod acquires;
mod clock;
mod cluster;
mod extends;
mod outages;

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_redis::contract::{ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard_redis::{LockBackend as _, LockError, LockId, RedisBackend, RedisOptions};
use syncguard_test_services::proxy::{FaultProxy, Hold};
use syncguard_test_services::redis::RedisServer;

use crate::redis::support::{Raw, backend, take};

/// Longer than any test, so that a lock that stays is noticed.
const HOUR: u64 = 3_600_000;

/// A server, and a proxy that holds back its requests.
struct Line {
    server: RedisServer,
    proxy: FaultProxy,
    raw: Raw,
    /// A direct connection.
    direct: RedisBackend,
}

impl Line {
    async fn start() -> Result<Self> {
        let server = RedisServer::start()?;
        let proxy = FaultProxy::start(server.port())?;
        let raw = Raw::connect(&server.url()).await;
        let direct = backend(&server).await;
        // An unknown script has no effect whenever it arrives, so the scripts are loaded first.
        let lock = take(&direct, "warm", 1000).await;
        let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(1))?;
        assert!(direct.extend(extend).await?.is_extended());
        assert!(direct.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        Ok(Self { server, proxy, raw, direct })
    }

    /// A backend behind the proxy, with an answer on each of its connections, which also told it the server's time.
    async fn backend(&self, connections: usize, command_timeout_ms: u64) -> Result<RedisBackend> {
        let options = RedisOptions::new()
            .with_connections(connections)
            .with_command_timeout(Duration::from_millis(command_timeout_ms));
        let url = format!("redis://127.0.0.1:{}", self.proxy.port());
        let prepared = async || {
            let backend = RedisBackend::connect_with(&url, options.clone()).await?;
            for _ in 0..connections {
                let nobody = ReleaseRequest::new(LockId::generate()?);
                assert!(!backend.release(nobody).await?.is_released());
            }
            Ok::<_, LockError>(backend)
        };
        // On a busy machine a small limit may be too small for this. After a timeout a connection may be replaced, so
        // each try is with another backend.
        Ok(insist(prepared).await)
    }

    /// Holds the connection that sends next.
    fn hold_next(&self) {
        assert_eq!(self.proxy.held(), 0);
        self.proxy.hold(Hold::Next);
    }

    /// Waits until a request is held.
    async fn caught(&self) {
        soon("something is held", || async { self.proxy.held() == 1 }).await;
    }

    /// Delivers the held requests, and waits until the server has carried them out.
    async fn deliver(&self) {
        let before = self.raw.calls("evalsha").await;
        assert_eq!(self.proxy.deliver(), 1);
        let arrived = || async { self.raw.calls("evalsha").await > before };
        soon("what was held has arrived", arrived).await;
        // Another request may have been counted.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    /// When the lock of a key expires in the store.
    async fn expiry(&self, key: &str) -> Option<u64> {
        let found = self.direct.lookup(LookupRequest::by_key(key).unwrap()).await;
        found.expect("an answer").map(|lock| lock.expires_at.as_millis())
    }
}

/// Waits until no clean-up is left.
async fn cleaned_up(backend: &RedisBackend) {
    let clean_up = backend.client_state().clean_up();
    soon("the end of the clean-up", || async { clean_up.waiting() == 0 }).await;
}

/// Polls until the condition holds.
async fn soon<F: Future<Output = bool>>(what: &str, mut probe: impl FnMut() -> F) {
    let started = Instant::now();
    while !probe().await {
        assert!(started.elapsed() < Duration::from_secs(20), "no end of waiting: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Retries until there is a connection again.
async fn insist<T>(mut attempt: impl AsyncFnMut() -> Result<T, LockError>) -> T {
    let started = Instant::now();
    loop {
        match attempt().await {
            Ok(result) => return result,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no service");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
