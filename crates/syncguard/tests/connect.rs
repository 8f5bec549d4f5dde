//! The URLs that `connect` accepts, and its errors for all others.

use syncguard::{ErrorCode, connect};

async fn refusal(url: &str) -> String {
    let error = connect(url).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    error.message().to_owned()
}

#[tokio::test]
async fn a_url_that_names_no_store_is_refused_without_being_shown() {
    for url in ["", "http://user:hunter2@host", "hunter2", "hunter2://host", "REDIS://host"] {
        assert!(refusal(url).await.contains("no known store"), "{url}");
    }
}

#[cfg(feature = "memory")]
#[tokio::test]
async fn every_memory_store_is_its_own() {
    let (one, other) = (connect("memory:").await.unwrap(), connect("memory:").await.unwrap());
    assert_eq!(syncguard::LockBackend::capabilities(&one).backend, "memory");
    let _held = syncguard::acquire(&one, "key").await.unwrap();
    assert!(syncguard::try_acquire(&one, "key").await.unwrap().is_busy());
    assert!(syncguard::try_acquire(&other, "key").await.unwrap().is_acquired());
    assert!(refusal("memory://hunter2").await.contains("memory:"));
}

/// Each store behind `connect` can be asked how good it is.
#[cfg(all(feature = "memory", feature = "sqlite"))]
#[tokio::test]
async fn any_store_can_be_asked_for_its_health() {
    use syncguard::contract::SignalStatus;
    use syncguard::diagnostics::HealthLevel;
    use syncguard::memory::TestStore;
    use syncguard::{DynBackend, LockBackend as _};

    let url = format!("sqlite:{}/health.db?synchronous=normal", env!("CARGO_TARGET_TMPDIR"));
    let health = connect(&url).await.unwrap().health().await;
    assert!(health.reachability.is_ok() && health.signals == SignalStatus::Working, "{health:?}");
    let found = health.findings.iter().find(|finding| finding.about == "synchronous").unwrap();
    assert_eq!(
        found.to_string(),
        "yellow synchronous: synchronous is normal: take synchronous=normal out of the URL"
    );
    assert!(health.level() >= HealthLevel::Yellow);

    let store = TestStore::new();
    let shared = DynBackend::new(std::sync::Arc::new(store.clone()));
    assert_eq!(shared.health().await.level(), HealthLevel::Green);
    store.set_down(true);
    let health = shared.health().await;
    assert_eq!(health.level(), HealthLevel::Red);
    assert_eq!(health.reachability.unwrap_err().code(), ErrorCode::ServiceUnavailable);
}

/// CI runs this every night without most of the features.
#[tokio::test]
async fn a_store_that_was_not_built_in_is_named() {
    for (built_in, feature, url) in [
        (cfg!(feature = "etcd"), "etcd", "etcds://user:hunter2@host"),
        (cfg!(feature = "firestore"), "firestore", "firestore://hunter2"),
        (cfg!(feature = "memory"), "memory", "memory:"),
        (cfg!(feature = "aws"), "aws", "s3://hunter2"),
        (cfg!(feature = "azure"), "azure", "az://hunter2"),
        (cfg!(feature = "gcp"), "gcp", "gs://hunter2"),
        (cfg!(feature = "postgres"), "postgres", "postgresql://user:hunter2@host"),
        (cfg!(feature = "redis"), "redis", "valkey-cluster://user:hunter2@host"),
        (cfg!(feature = "sqlite"), "sqlite", "sqlite:hunter2"),
    ] {
        if !built_in {
            assert!(refusal(url).await.contains(&format!("feature `{feature}`")), "{url}");
        }
    }
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn what_needs_tls_says_so() {
    let mut urls = Vec::new();
    if cfg!(feature = "redis") {
        urls.extend(["rediss://u:hunter2@h", "valkeys-cluster://u:hunter2@h"]);
        urls.push("rediss://h?sslrootcert=ca.pem");
    }
    if cfg!(feature = "postgres") {
        urls.extend(["postgres://u:hunter2@h?sslmode=require", "postgres://h?sslrootcert=ca.pem"]);
    }
    if cfg!(feature = "etcd") {
        urls.extend(["etcds://u:hunter2@h", "etcds://h?sslrootcert=ca.pem"]);
    }
    for url in urls {
        assert!(refusal(url).await.contains("feature `tls`"), "{url}");
    }
}

#[cfg(all(
    feature = "etcd",
    feature = "firestore",
    feature = "memory",
    feature = "object-store",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
))]
mod with_every_store {
    use super::*;

    /// The table of [`connect`] has the parameters that each store names in its error.
    #[tokio::test]
    async fn the_table_has_every_parameter_of_every_store() {
        let docs = include_str!("../src/connect.rs");
        for (url, count) in [
            ("memory:", 3),
            ("redis://h", 14),
            ("redis-cluster://h", 15),
            ("redis-sentinel://h", 18),
            ("postgres://h", 39),
            ("etcd://h", 12),
            ("firestore://p", 14),
            ("s3://b", 14),
            ("sqlite:f", 7),
        ] {
            let refused = refusal(&format!("{url}?hunter2=1")).await;
            let (_, names) = refused.split_once("allowed are: ").expect("names");
            let names: Vec<&str> = names.split(", ").collect();
            assert_eq!(names.len(), count, "{url}: {names:?}");
            for name in names {
                assert!(docs.contains(&format!("`{name}`")), "{url}: {name}");
            }
        }
    }

    #[tokio::test]
    async fn parameters_reach_the_store() {
        for (url, says) in [
            ("memory:?dispose_timeout_ms=0", "dispose_timeout_ms"),
            ("redis://u:hunter2@h?key_prefix=fence", "prefix"),
            ("valkeys://u:hunter2@h?key_prefix=fence", "prefix"),
            ("redis-cluster://u:hunter2@h?key_prefix=%7Bx", "hash tag"),
            ("postgres://u:hunter2@h?lock_table=a&fence_table=a", "two tables"),
            ("postgresql://u:hunter2@h?lock_table=a&fence_table=a", "two tables"),
            ("etcd://u:hunter2@h/a%2F", "key prefix"),
            ("etcds://u:hunter2@h/a%2F", "key prefix"),
            ("firestore://p?collection=a&fence_collection=a", "counters"),
            ("az://c/a%2F", "prefix"),
            ("sqlite:no/such/folder/hunter2.db", "does not exist"),
        ] {
            assert!(refusal(url).await.contains(says), "{url}");
        }
        let url = "firestore://p?emulator=127.0.0.1:9&dispose_timeout_ms=70";
        let defaults = connect(url).await.unwrap();
        let timeout = syncguard::LockBackend::client_state(&defaults).dispose_timeout();
        assert_eq!(timeout, std::time::Duration::from_millis(70));
    }

    #[tokio::test]
    async fn a_store_that_is_not_there_is_an_error_within_the_bound() {
        // Nothing listens on port 9 of loopback.
        for url in ["redis://user:hunter2@127.0.0.1:9", "postgres://user:hunter2@127.0.0.1:9/db"] {
            let started = std::time::Instant::now();
            let error = connect(url).await.unwrap_err();
            assert!(error.is_retryable(), "{error}");
            assert!(started.elapsed() < std::time::Duration::from_secs(50));
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
