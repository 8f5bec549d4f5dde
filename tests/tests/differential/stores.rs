//! The stores, on the servers that other tests share.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use syncguard::contract::IsLockedRequest;
use syncguard::{DynBackend, LockBackend as _};
use syncguard_simulation::{Direct, Store as Simulated};
use syncguard_test_services::store::{Server, Store};
use tempfile::TempDir;

use crate::{etcd, firestore, postgres, redis};

/// The address of an empty store with this time for each of its timeouts.
pub(crate) fn url(store: Store, timeout_ms: u64) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));
    let server = match store {
        Store::Memory => Server::Memory,
        Store::Sqlite => Server::Sqlite(FOLDER.path()),
        Store::Redis => Server::Redis(redis::support::shared()),
        Store::Postgres => Server::Postgres(postgres::support::shared()),
        Store::Etcd => Server::Etcd(etcd::support::shared()),
        Store::Firestore => Server::Firestore(firestore::support::shared()),
    };
    let url = server.url(&format!("side-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
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

/// The simulated server of a store that has one; the simulation has the real store of memory.
pub(crate) fn simulated_by(store: Store) -> Option<Simulated> {
    Simulated::of(store).first().copied().filter(|simulated| *simulated != Simulated::Memory)
}

/// Backends with simulated servers of their own.
pub(crate) fn simulated() -> Vec<DynBackend> {
    let stores = Store::ALL.into_iter().filter_map(simulated_by);
    stores.map(|store| DynBackend::new(Direct::new(store))).collect()
}
