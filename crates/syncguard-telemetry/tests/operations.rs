//! Each operation gives one event with the right contents.

use std::time::Duration;

use crate::common::{KEY, Store, TTL, observed, request, take};
use syncguard_memory::authoring::hash_key;
use syncguard_memory::authoring::recipes::FenceWindow;
use syncguard_memory::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_memory::{CancellationToken, ErrorCode, Fence, LockBackend, LockId, MemoryBackend};
use syncguard_telemetry::{EventKind, LockEvent, TelemetryOptions, with_telemetry};
use tokio::time::{advance, timeout};

#[tokio::test(start_paused = true)]
async fn each_answer_has_its_event() {
    let (backend, handle, seen) = observed(MemoryBackend::new());

    let lock_id = take(&backend, KEY).await.lock_id;
    assert!(!backend.acquire(request(KEY)).await.unwrap().is_acquired());
    assert_eq!(seen.lines(&handle).await, ["acquire ok", "acquire fail locked"]);

    assert!(backend.is_locked(IsLockedRequest::new(KEY).unwrap()).await.unwrap());
    assert!(!backend.is_locked(IsLockedRequest::new("free").unwrap()).await.unwrap());
    assert_eq!(seen.lines(&handle).await, ["isLocked ok", "isLocked fail"]);

    assert!(backend.lookup(LookupRequest::by_key(KEY).unwrap()).await.unwrap().is_some());
    assert!(backend.lookup(LookupRequest::by_lock_id(lock_id)).await.unwrap().is_some());
    assert!(backend.lookup(LookupRequest::by_key("free").unwrap()).await.unwrap().is_none());
    assert_eq!(seen.lines(&handle).await, ["lookup ok", "lookup ok", "lookup fail"]);

    let extend = ExtendRequest::new(lock_id, TTL).unwrap();
    assert!(backend.extend(extend.clone()).await.unwrap().is_extended());
    assert!(backend.release(ReleaseRequest::new(lock_id)).await.unwrap().is_released());
    assert!(!backend.release(ReleaseRequest::new(lock_id)).await.unwrap().is_released());
    assert!(!backend.extend(extend).await.unwrap().is_extended());
    let lines = ["extend ok", "release ok", "release fail not-found", "extend fail not-found"];
    assert_eq!(seen.lines(&handle).await, lines);

    let first = Fence::new(1).unwrap();
    let tick = request(KEY).with_fence_window(FenceWindow::new(first, first).unwrap());
    assert!(!backend.acquire(tick).await.unwrap().is_acquired());
    assert_eq!(seen.lines(&handle).await, ["acquire fail taken"]);

    let lock_id = take(&backend, KEY).await.lock_id;
    advance(TTL + Duration::from_secs(1)).await;
    let extend = ExtendRequest::new(lock_id, TTL).unwrap();
    assert!(!backend.extend(extend).await.unwrap().is_extended());
    assert!(!backend.release(ReleaseRequest::new(lock_id)).await.unwrap().is_released());
    let lines = ["acquire ok", "extend fail expired", "release fail expired"];
    assert_eq!(seen.lines(&handle).await, lines);
    assert_eq!((handle.dropped_events(), handle.panics()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn hashes_are_there_where_key_or_lock_id_are_involved() {
    let (backend, handle, seen) = observed(MemoryBackend::new());
    let lock_id = take(&backend, KEY).await.lock_id;
    let _ = backend.is_locked(IsLockedRequest::new(KEY).unwrap()).await.unwrap();
    let _ = backend.lookup(LookupRequest::by_key(KEY).unwrap()).await.unwrap();
    let _ = backend.lookup(LookupRequest::by_lock_id(lock_id)).await.unwrap();
    let _ = backend.extend(ExtendRequest::new(lock_id, TTL).unwrap()).await.unwrap();
    let _ = backend.release(ReleaseRequest::new(lock_id)).await.unwrap();

    let (key, id) = (Some(hash_key(KEY)), Some(lock_id.hash_id()));
    let expected = [
        (EventKind::Acquire, key, id),
        (EventKind::IsLocked, key, None),
        (EventKind::Lookup, key, None),
        (EventKind::Lookup, None, id),
        (EventKind::Extend, None, id),
        (EventKind::Release, None, id),
    ];
    let events = seen.events(&handle).await;
    let found: Vec<_> =
        events.iter().map(|event| (event.kind, event.key_hash, event.lock_id_hash)).collect();
    assert_eq!(found, expected);
    assert!(events.iter().all(|event| event.key.is_none() && event.lock_id.is_none()));
    assert!(events.iter().all(|event| event.backend == "memory"));
}

#[tokio::test(start_paused = true)]
async fn an_error_shows_its_code() {
    let store = Store::default();
    let (backend, handle, seen) = observed(store.clone());
    let lock_id = LockId::generate().unwrap();
    store.fail(ErrorCode::NetworkTimeout, 5);
    backend.acquire(request(KEY)).await.unwrap_err();
    backend.release(ReleaseRequest::new(lock_id)).await.unwrap_err();
    backend.extend(ExtendRequest::new(lock_id, TTL).unwrap()).await.unwrap_err();
    backend.is_locked(IsLockedRequest::new(KEY).unwrap()).await.unwrap_err();
    backend.lookup(LookupRequest::by_lock_id(lock_id)).await.unwrap_err();
    let lines = seen.lines(&handle).await;
    let kinds = ["acquire", "release", "extend", "isLocked", "lookup"];
    assert_eq!(lines, kinds.map(|kind| format!("{kind} fail !NetworkTimeout")));
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_is_told_as_aborted() {
    let (backend, handle, seen) = observed(Store::slow(Duration::from_millis(250)));
    // The token fires.
    let token = CancellationToken::new();
    token.cancel();
    let given_up = IsLockedRequest::new(KEY).unwrap().with_cancellation(token);
    assert_eq!(backend.is_locked(given_up).await.unwrap_err().code(), ErrorCode::Aborted);
    // The future is dropped half-way.
    let cut = timeout(Duration::from_millis(100), backend.acquire(request(KEY))).await;
    assert!(cut.is_err());
    let lines = ["isLocked fail !Aborted 250ms", "acquire fail !Aborted 100ms"];
    assert_eq!(seen.lines(&handle).await, lines);
    // The future is never polled.
    drop(backend.acquire(request(KEY)));
    assert_eq!(seen.lines(&handle).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn raw_key_and_lock_id_come_only_where_they_are_allowed() {
    let all = events_of(|options| options.with_include_raw(|_| true)).await;
    let [acquire, release] = &all[..] else { panic!("{all:?}") };
    let lock_id = acquire.lock_id.unwrap();
    assert_eq!(acquire.key.as_ref().unwrap().expose(), KEY);
    assert_eq!((&release.key, release.lock_id), (&None, Some(lock_id)));
    // `Debug` does not show the raw values.
    let printed = format!("{all:?}");
    assert!(!printed.contains(KEY) && !printed.contains(lock_id.expose()), "{printed}");

    let some = events_of(|options| {
        options.with_include_raw(|event| {
            assert!(event.key.is_none() && event.lock_id.is_none());
            assert!(event.lock_id_hash.is_some());
            event.kind == EventKind::Release
        })
    })
    .await;
    assert_eq!(raw(&some), [(false, false), (false, true)]);

    for none in [
        events_of(|options| options).await,
        events_of(|options| options.with_include_raw(|_| false)).await,
        events_of(|options| options.with_include_raw(|_| panic!("as the test wants it"))).await,
    ] {
        assert_eq!(raw(&none), [(false, false), (false, false)]);
    }
}

fn raw(events: &[LockEvent]) -> Vec<(bool, bool)> {
    events.iter().map(|event| (event.key.is_some(), event.lock_id.is_some())).collect()
}

/// An acquire and a release.
async fn events_of(configure: impl FnOnce(TelemetryOptions) -> TelemetryOptions) -> Vec<LockEvent> {
    let seen = crate::common::Seen::default();
    let backend = with_telemetry(MemoryBackend::new(), configure(seen.options()));
    let lock_id = take(&backend, KEY).await.lock_id;
    let _ = backend.release(ReleaseRequest::new(lock_id)).await.unwrap();
    seen.events(&backend.telemetry()).await
}
