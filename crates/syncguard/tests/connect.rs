//! `connect`: what it takes, and what it says of the rest.

use syncguard::{ErrorCode, connect};

#[tokio::test]
async fn a_url_that_names_no_store_is_refused_without_being_shown() {
    for (url, says) in [
        ("", "no known store"),
        ("etcd://user:hunter2@host", "no known store"),
        ("hunter2", "no known store"),
        ("memory://hunter2", "memory:"),
    ] {
        let error = connect(url).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.to_string().contains(says), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[cfg(feature = "memory")]
#[tokio::test]
async fn every_memory_store_is_its_own() {
    let (one, other) = (connect("memory:").await.unwrap(), connect("memory:").await.unwrap());
    assert_eq!(syncguard::LockBackend::capabilities(&one).backend, "memory");
    let _held = syncguard::acquire(&one, "key").await.unwrap();
    assert!(syncguard::try_lock(&one, "key").await.unwrap().is_none());
    assert!(syncguard::try_lock(&other, "key").await.unwrap().is_some());
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn a_store_that_was_not_built_in_is_named() {
    let error = connect("redis://user:hunter2@host").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.to_string().contains("feature `redis`"), "{error}");
}

#[cfg(all(feature = "redis", feature = "postgres"))]
#[tokio::test]
async fn a_store_that_is_not_there_is_an_error_within_the_bound() {
    // Nothing listens on port 9 of loopback.
    for url in ["redis://user:hunter2@127.0.0.1:9", "postgres://user:hunter2@127.0.0.1:9/db"] {
        let started = std::time::Instant::now();
        let error = connect(url).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert!(started.elapsed() < std::time::Duration::from_secs(10));
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}
