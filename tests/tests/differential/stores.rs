//! Five stores, on the servers that other tests share.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use syncguard::contract::IsLockedRequest;
use syncguard::{DynBackend, LockBackend as _};
use syncguard_simulation::{Direct, Store};
use tempfile::TempDir;

use crate::{firestore, postgres, redis};

/// The names of the stores and of their timeouts.
pub(crate) const STORES: [(&str, &[&str]); 5] = [
    ("memory", &["dispose"]),
    ("redis", &["command", "connect", "dispose"]),
    ("postgres", &["pool_wait", "statement", "connect", "dispose"]),
    ("firestore", &["operation", "request", "connect", "dispose"]),
    ("sqlite", &["operation", "dispose"]),
];

/// The address of an empty store with this time for each of its timeouts, by its place in [`STORES`].
pub(crate) fn url(store: usize, timeout_ms: u64) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let url = match store {
        0 => "memory:?".to_owned(),
        1 => format!("{}?key_prefix=side-{number}", redis::support::shared().url()),
        2 => format!(
            "{}?setup_schema=true&pool_size=2&lock_table=side_{number}&fence_table=side_{number}_fences",
            postgres::support::shared().url()
        ),
        3 => {
            let emulator = firestore::support::shared().host_port();
            format!("firestore://side-{number}/(default)?emulator={emulator}")
        }
        _ => format!("sqlite:{}/{number}.db?", FOLDER.path().display()),
    };
    let timeouts = STORES[store].1.iter();
    timeouts.fold(url, |url, timeout| format!("{url}&{timeout}_timeout_ms={timeout_ms}"))
}

/// Empty stores of all five kinds. They are patient, because answers are compared here and not times.
pub(crate) async fn fresh() -> Vec<DynBackend> {
    let backends = STORES.iter().enumerate().map(async |(store, (name, _))| {
        let backend = syncguard::connect(&url(store, 60_000)).await.expect("a backend");
        assert_eq!(backend.capabilities().backend, *name);
        // Opens the connection before time matters.
        let request = IsLockedRequest::new("any").expect("a key");
        assert!(!backend.is_locked(request).await.expect("an answer"), "{name}");
        backend
    });
    join_all(backends).await
}

/// Backends with simulated servers of their own.
pub(crate) fn simulated() -> [DynBackend; 3] {
    [Store::Redis, Store::Postgres, Store::Firestore]
        .map(|store| DynBackend::new(Direct::new(store)))
}
