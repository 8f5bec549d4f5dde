//! Troubles between a backend and its server, on each store that has a server.

mod credentials;
mod cut;
pub(crate) mod long;
mod runtimes;
pub(crate) mod silent;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{AcquireRequest, ExtendRequest};
use syncguard::{DynBackend, LockBackend, LockId, connect};
use syncguard_test_services::store::{Server, Store};

use crate::differential::stores::server;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// The port of the server that other tests share.
fn port(store: Store) -> u16 {
    match server(store) {
        Server::Memory | Server::Sqlite(_) => unreachable!("no server"),
        Server::Redis(server) => server.port(),
        Server::Postgres(server) => server.port(),
        Server::Etcd(cluster) => cluster.port(0),
        Server::Firestore(emulator) => emulator.port(),
        Server::ObjectStore(server) => server.port(),
    }
}

/// The URL of a part of the shared server, through this port.
fn url_at(store: Store, at: u16, part: &str) -> String {
    let own = format!("127.0.0.1:{}", port(store));
    server(store).url(part).replace(&own, &format!("127.0.0.1:{at}"))
}

/// A backend through this port, with this time for each of its timeouts.
async fn at(store: Store, at: u16, part: &str, timeout: Duration) -> Result<DynBackend> {
    let millis = u64::try_from(timeout.as_millis())?;
    Ok(connect(&store.with_timeouts(url_at(store, at, part), millis)).await?)
}

pub(crate) async fn take<B: LockBackend>(backend: &B, key: &str) -> Result<LockId> {
    let acquired = backend.acquire(AcquireRequest::new(key, MINUTE)?).await?;
    Ok(acquired.acquired().context("a free key")?.lock_id)
}

/// How many calls fail until the lock is extended.
pub(crate) async fn failures_before_an_extend<B: LockBackend>(
    backend: &B,
    lock: LockId,
) -> Result<usize> {
    for failures in 0..100 {
        match backend.extend(ExtendRequest::new(lock, MINUTE)?).await {
            Ok(extended) => {
                ensure!(extended.is_extended(), "{extended:?}");
                return Ok(failures);
            }
            Err(error) => ensure!(error.is_retryable(), "{error:?}"),
        }
    }
    anyhow::bail!("it is never extended")
}
