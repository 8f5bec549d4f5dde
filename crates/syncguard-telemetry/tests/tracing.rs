//! The log: what is in a line, at which level, and where it goes.

#![cfg(feature = "tracing")]

use crate::common::{KEY, Store, TTL, request, take};
use syncguard_conformance::{LogLine, LogLines};
use syncguard_memory::authoring::hash_key;
use syncguard_memory::contract::{Holder, IsLockedRequest, ReleaseRequest};
use syncguard_memory::{
    AcquisitionOptions, AutoExtend, ErrorCode, LockBackend, LockConfig, acquire, lock,
};
use syncguard_telemetry::{Telemetry, TelemetryOptions, with_telemetry};
use tracing::{Instrument as _, Level, info_span};

#[tokio::test(start_paused = true)]
async fn a_line_has_the_fields_of_the_event_and_stands_in_the_callers_span() {
    let (log, backend, _subscriber) = logged(Store::default());
    let lock_id = take(&backend, KEY).instrument(info_span!("checkout")).await.lock_id;
    let lines = told(&log, &backend).await;
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((line.level, line.span), (Level::DEBUG, Some("checkout")));
    let (key, id) = (hash_key(KEY), lock_id.hash_id());
    assert_eq!(
        line.text,
        format!(
            "message=a lock operation was answered backend=\"memory\" operation=\"acquire\" \
             result=\"ok\" duration_ms=0.0 holder={:?} key_hash={key} lock_id_hash={id}",
            Holder::this_process().label()
        )
    );
    let unnamed = request("other").with_holder(Holder::unnamed());
    assert!(backend.acquire(unnamed).await.unwrap().is_acquired());
    let lines = told(&log, &backend).await;
    assert!(lines.len() == 1 && !lines[0].text.contains("holder"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn the_level_says_how_bad_it_is() {
    let store = Store::default();
    let (log, backend, _subscriber) = logged(store.clone());
    let at = async || told(&log, &backend).await.last().map(|line| line.level);

    let lock_id = take(&backend, KEY).await.lock_id;
    assert_eq!(at().await, Some(Level::DEBUG));
    let _ = backend.is_locked(IsLockedRequest::new(KEY).unwrap()).await.unwrap();
    assert_eq!(at().await, Some(Level::TRACE));
    let _ = backend.acquire(request(KEY)).await.unwrap();
    assert_eq!(at().await, Some(Level::DEBUG));
    let impatient = AcquisitionOptions::new().with_max_retries(0);
    acquire(&backend, LockConfig::new(KEY).with_acquisition(impatient)).await.unwrap_err();
    assert_eq!(at().await, Some(Level::INFO));
    store.fail(ErrorCode::NetworkTimeout, 1);
    backend.release(ReleaseRequest::new(lock_id)).await.unwrap_err();
    assert_eq!(at().await, Some(Level::WARN));
    store.fail(ErrorCode::AuthFailed, 1);
    backend.release(ReleaseRequest::new(lock_id)).await.unwrap_err();
    assert_eq!(at().await, Some(Level::ERROR));
    store.fail(ErrorCode::Aborted, 1);
    backend.release(ReleaseRequest::new(lock_id)).await.unwrap_err();
    assert_eq!(at().await, Some(Level::DEBUG));
    let _ = backend.release(ReleaseRequest::new(lock_id)).await.unwrap();
    assert_eq!(at().await, Some(Level::DEBUG));
    let _ = backend.release(ReleaseRequest::new(lock_id)).await.unwrap();
    assert_eq!(at().await, Some(Level::WARN));

    let kept = LockConfig::new(KEY).with_ttl(TTL).with_auto_extend(AutoExtend::new());
    let guard = acquire(&backend, kept).await.unwrap();
    store.fail(ErrorCode::ServiceUnavailable, 1000);
    guard.lost().await;
    assert_eq!(at().await, Some(Level::ERROR));
}

/// A failed request gives one line above `DEBUG`.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_fails_is_one_warning() {
    let store = Store::default();
    let (log, backend, _subscriber) = logged(store.clone());
    for (code, level) in [
        (ErrorCode::ServiceUnavailable, Level::WARN),
        (ErrorCode::RateLimited, Level::WARN),
        (ErrorCode::AuthFailed, Level::ERROR),
        (ErrorCode::Internal, Level::ERROR),
    ] {
        store.fail(code, 1);
        let error = acquire(&backend, LockConfig::new(KEY)).await.unwrap_err();
        assert_eq!(error.code(), code);
        let lines = told(&log, &backend).await;
        let loud: Vec<_> = lines.iter().filter(|line| line.level <= Level::INFO).collect();
        assert!(loud.len() == 1 && loud[0].level == level, "{lines:?}");
    }
}

/// The guard does not log a loss that telemetry has logged.
#[tokio::test(start_paused = true)]
async fn a_loss_is_logged_once() {
    let (log, backend, _subscriber) = logged(Store::default());
    let losses = async || {
        backend.telemetry().flush().await;
        log.take().into_iter().filter(|line| line.text.contains("lost")).count()
    };
    let kept = LockConfig::new(KEY).with_ttl(TTL).with_auto_extend(AutoExtend::new());
    let guard = acquire(&backend, kept.clone()).await.unwrap();
    let stolen = ReleaseRequest::new(guard.lock_id());
    assert!(backend.inner().inner.release(stolen).await.unwrap().is_released());
    guard.lost().await;
    assert_eq!(losses().await, 1);
    drop(guard);

    let short = LockConfig::new(KEY).with_ttl(TTL);
    lock(&backend, short, async |_| tokio::time::sleep(TTL * 2).await).await.unwrap();
    assert_eq!(losses().await, 1);

    // Without telemetry the guard logs the loss.
    let store = backend.inner().clone();
    let guard = acquire(&store, kept).await.unwrap();
    assert!(store.inner.release(ReleaseRequest::new(guard.lock_id())).await.unwrap().is_released());
    guard.lost().await;
    tokio::task::yield_now().await;
    assert_eq!(losses().await, 1);
}

/// A log, and this store with telemetry that writes to it.
fn logged(store: Store) -> (LogLines, Telemetry<Store>, impl Sized) {
    let (log, subscriber) = LogLines::collect();
    (log, with_telemetry(store, TelemetryOptions::new().with_tracing()), subscriber)
}

/// The lines of telemetry since the last call.
async fn told(log: &LogLines, backend: &Telemetry<Store>) -> Vec<LogLine> {
    backend.telemetry().flush().await;
    let all = log.take().into_iter();
    all.filter(|line| line.target == "syncguard::telemetry").collect()
}
