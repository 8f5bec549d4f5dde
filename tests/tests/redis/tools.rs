//! What the tests of Redis share.

use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::types::config::{Config, ReconnectPolicy};
use syncguard_redis::contract::{AcquireRequest, Acquired, ExtendRequest, ReleaseRequest};
use syncguard_redis::{ExtendResult, LockBackend as _, LockError, RedisBackend, RedisOptions};
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::wait;

/// Longer than any step takes on a busy machine.
pub(super) const SOON: Duration = Duration::from_secs(60);

pub(super) fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

/// A backend that no busy machine lets time out.
pub(super) async fn patient(url: &str) -> RedisBackend {
    let options = RedisOptions::new().with_connect_timeout(SOON).with_operation_timeout(SOON);
    RedisBackend::connect_with(url, options).await.expect("a connection")
}

/// Over a client of the program, which connects again for ever.
pub(super) async fn over_client(url: &str) -> anyhow::Result<(Client, RedisBackend)> {
    let policy = Some(ReconnectPolicy::new_constant(0, 10));
    let client = Client::new(Config::from_url(url)?, None, None, policy);
    client.init().await?;
    let backend = RedisBackend::from_client(client.clone(), RedisOptions::new())?;
    Ok((client, backend))
}

pub(super) async fn acquire(backend: &RedisBackend, key: &str) -> Result<Acquired, LockError> {
    let request = AcquireRequest::new(key, Duration::from_secs(30))?;
    Ok(backend.acquire(request).await?.acquired().expect("a free lock"))
}

pub(super) async fn extend(
    backend: &RedisBackend,
    lock: &Acquired,
) -> Result<ExtendResult, LockError> {
    backend.extend(ExtendRequest::new(lock.lock_id, Duration::from_secs(30))?).await
}

pub(super) async fn release(backend: &RedisBackend, lock: &Acquired) -> Result<bool, LockError> {
    Ok(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released())
}

/// Tries until it succeeds; returns the number of failures.
pub(super) async fn until_ok<T>(mut call: impl AsyncFnMut() -> Result<T, LockError>) -> (T, u32) {
    let (started, mut failures) = (Instant::now(), 0);
    loop {
        match call().await {
            Ok(value) => return (value, failures),
            Err(error) => assert!(started.elapsed() < SOON, "{error:?}"),
        }
        failures += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A master and a replica that has all its writes.
pub(super) fn pair() -> anyhow::Result<(RedisServer, RedisServer)> {
    let master = RedisServer::start()?;
    let replica = RedisServer::builder().replica_of(&master).start()?;
    Ok((master, replica))
}

/// Makes the replica the master and the master a replica, as a person does: no connection is cut. A lock is held.
pub(super) fn swap(master: &RedisServer, replica: &RedisServer) -> anyhow::Result<()> {
    wait::until("the replica has all writes", SOON, || {
        Ok(replica.cli(&["DBSIZE"])? == master.cli(&["DBSIZE"])?)
    })?;
    replica.cli(&["REPLICAOF", "NO", "ONE"])?;
    master.cli(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()])?;
    Ok(())
}
