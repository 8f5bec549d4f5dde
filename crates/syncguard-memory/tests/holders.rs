//! Callers learn who holds a lock.

use std::time::Duration;

use syncguard_memory::{
    AcquisitionOptions, ErrorCode, LockConfig, LockError, MemoryBackend, acquire,
};

const WAIT: Duration = Duration::from_secs(1);

async fn refused(config: LockConfig) -> LockError {
    let backend = MemoryBackend::new();
    let holder = LockConfig::new("payment:123").with_holder("web-7f9c");
    let _held = acquire(&backend, holder).await.unwrap();
    acquire(&backend, config).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waited_in_vain_is_told_the_holder() {
    let error = refused(LockConfig::new("payment:123").wait_up_to(WAIT)).await;
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert_eq!(error.holder(), Some("web-7f9c"));
    let text = error.to_string();
    assert!(text.contains("its holder is web-7f9c"), "{text}");
    assert!(!format!("{text} {error:?}").contains("payment"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_wait_costs_one_request() {
    let at_once = AcquisitionOptions::new().with_timeout(WAIT).with_max_retries(0);
    let error = refused(LockConfig::new("payment:123").with_acquisition(at_once)).await;
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert!(error.holder().is_none(), "{error:?}");
}
