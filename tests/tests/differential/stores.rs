//! The stores, on the servers that other tests share.

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use syncguard::contract::IsLockedRequest;
use syncguard::{DynBackend, LockBackend as _};
use syncguard_test_services::store::{Server, Store};
use tempfile::TempDir;

use crate::{etcd, firestore, object_store, postgres, redis};

/// Where the files are.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));
    FOLDER.path()
}

/// The name of a part of the stores that is empty.
pub(crate) fn part() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("side-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The address of an empty store with this time for each of its timeouts.
pub(crate) fn url(store: Store, timeout_ms: u64) -> String {
    url_of(store, &part(), timeout_ms)
}

/// The servers that other tests share, and the folder of files.
pub(crate) fn server(store: Store) -> Server<'static> {
    match store {
        Store::Memory => Server::Memory,
        Store::Sqlite => Server::Sqlite(folder()),
        Store::Redis => Server::Redis(redis::support::shared()),
        Store::Postgres => Server::Postgres(postgres::support::shared()),
        Store::Etcd => Server::Etcd(etcd::support::shared()),
        Store::Firestore => Server::Firestore(firestore::support::shared()),
        Store::ObjectStore => Server::ObjectStore(object_store::support::shared()),
    }
}

pub(crate) fn url_of(store: Store, part: &str, timeout_ms: u64) -> String {
    let url = server(store).url(part);
    let url = if matches!(store, Store::Postgres) { format!("{url}&pool_size=2") } else { url };
    store.with_timeouts(url, timeout_ms)
}

/// Empty stores of all kinds. They are patient, because answers are compared here and not times.
pub(crate) async fn fresh() -> Vec<DynBackend> {
    let backends = Store::ALL.map(async |store| {
        let backend = syncguard::connect(&url(store, 60_000)).await.expect("a backend");
        assert_eq!(backend.capabilities().backend, store.name());
        // Opens the connection before time matters.
        let request = IsLockedRequest::new("any").expect("a key");
        assert!(!backend.is_locked(request).await.expect("an answer"), "{store}");
        backend
    });
    join_all(backends).await
}

#[cfg(feature = "seams")]
pub(crate) use crate::seams::simulated::simulated;

/// Users get no simulated servers.
#[cfg(not(feature = "seams"))]
pub(crate) const fn simulated() -> Vec<DynBackend> {
    Vec::new()
}
