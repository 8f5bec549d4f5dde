//! Backends made from a URL.

use std::time::Duration;

use syncguard_memory::{ErrorCode, LockBackend as _, MemoryBackend};

#[tokio::test]
async fn a_url_can_set_the_only_option() {
    let default = MemoryBackend::connect("memory:").await.unwrap();
    assert_eq!(default.client_state().dispose_timeout(), Duration::from_secs(5));
    let other = MemoryBackend::connect("memory:?dispose_timeout_ms=70").await.unwrap();
    assert_eq!(other.client_state().dispose_timeout(), Duration::from_millis(70));
}

#[tokio::test]
async fn another_url_is_refused_without_being_shown() {
    for (url, says) in [
        ("", "`memory:`"),
        ("memory://hunter2", "`memory:`"),
        ("hunter2", "`memory:`"),
        ("memory:?hunter2=1", "allowed are: dispose_timeout_ms"),
        ("memory:?dispose_timeout_ms=hunter2", "whole number"),
        ("memory:?dispose_timeout_ms=0", "from 1"),
    ] {
        let error = MemoryBackend::connect(url).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().contains(says), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}
