//! Callbacks can be slow, broken or too few: locking goes on. No test here waits for time to pass.

mod common;

use std::pin::pin;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};

use common::{KEY, Seen, take};
use syncguard_memory::{IsLockedRequest, LockBackend, MemoryBackend, ReleaseRequest};
use syncguard_telemetry::{Telemetry, TelemetryOptions, with_telemetry};

/// A callback that tells when it is called and then blocks until it may go on.
struct Gate {
    called: Receiver<()>,
    go_on: Sender<()>,
}

impl Gate {
    fn new(options: TelemetryOptions) -> (Self, TelemetryOptions) {
        let ((call, called), (go_on, wait)) = (channel(), channel());
        let wait = Mutex::new(wait);
        let options = options.with_on_event(move |_| {
            let _ = call.send(());
            // Without the test's end of it, there is nothing to wait for any more.
            let _ = wait.lock().unwrap().recv();
        });
        (Self { called, go_on }, options)
    }
}

async fn ask(backend: &impl LockBackend) -> bool {
    backend.is_locked(IsLockedRequest::new(KEY).unwrap()).await.unwrap()
}

async fn cycle(backend: &impl LockBackend) {
    let lock_id = take(backend, KEY).await.lock_id;
    assert!(backend.release(ReleaseRequest::new(lock_id)).await.unwrap().is_released());
}

/// On the one thread that there is, operations get through while a callback blocks.
#[tokio::test]
async fn a_slow_callback_delays_no_operation() {
    let (gate, options) = Gate::new(TelemetryOptions::new());
    let backend = with_telemetry(MemoryBackend::new(), options);
    cycle(&backend).await;
    gate.called.recv().unwrap();
    for _ in 0..100 {
        cycle(&backend).await;
    }
    assert_eq!(backend.dropped_events(), 0);
    drop(gate);
    backend.telemetry().flush().await;
}

#[tokio::test]
async fn what_does_not_fit_the_queue_is_dropped_and_counted() {
    let seen = Seen::default();
    let (gate, options) = Gate::new(seen.options().with_queue_capacity(4));
    let backend = with_telemetry(MemoryBackend::new(), options);
    ask(&backend).await;
    gate.called.recv().unwrap();
    // One is with the callback, four wait, the rest has no place.
    for _ in 0..10 {
        ask(&backend).await;
    }
    assert_eq!(backend.dropped_events(), 6);
    drop(gate.go_on);
    let handle = backend.telemetry();
    assert_eq!(seen.lines(&handle).await.len(), 5);
    // There is room again.
    ask(&backend).await;
    assert_eq!(seen.lines(&handle).await.len(), 1);
    assert_eq!((handle.dropped_events(), handle.panics()), (6, 0));
}

#[tokio::test]
async fn a_panic_in_a_callback_is_contained_and_counted() {
    let seen = Seen::default();
    let options = TelemetryOptions::new()
        .with_on_event(|_| panic!("as the test wants it"))
        .with_include_raw_if(|_| panic!("as the test wants it"))
        // Behind the broken one, this gets every event.
        .with_on_event(seen.callback());
    let backend = with_telemetry(MemoryBackend::new(), options);
    cycle(&backend).await;
    let handle = backend.telemetry();
    assert_eq!(seen.lines(&handle).await.len(), 2);
    assert_eq!((handle.panics(), handle.dropped_events()), (4, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_keep_their_order() {
    let seen = Seen::default();
    let backend = with_telemetry(MemoryBackend::new(), seen.options());
    let handle = backend.telemetry();
    for _ in 0..1000 {
        cycle(&backend).await;
    }
    let lines: Vec<_> =
        seen.events(&handle).await.iter().map(|event| event.kind.as_str()).collect();
    let expected: Vec<_> = (0..2000).map(|n| ["acquire", "release"][n % 2]).collect();
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn dropping_the_backend_loses_no_event() {
    let (told, events) = channel();
    let (gate, options) = Gate::new(TelemetryOptions::new());
    let options = options.with_on_event(move |event| told.send(event.kind.as_str()).unwrap());
    let backend = with_telemetry(MemoryBackend::new(), options);
    cycle(&backend).await;
    gate.called.recv().unwrap();
    drop(backend);
    drop(gate);
    // The channel ends when the callbacks are gone: nothing is left behind either.
    assert_eq!(events.iter().collect::<Vec<_>>(), ["acquire", "release"]);
}

#[test]
fn a_backend_outlives_its_runtime() {
    let seen = Seen::default();
    let backend = with_telemetry(MemoryBackend::new(), seen.options());
    let handle = backend.telemetry();
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ask(&backend));
        runtime.shutdown_background();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(seen.lines(&handle)).len(), 3);
    assert_eq!(handle.dropped_events(), 0);
}

#[test]
fn without_a_runtime_events_wait_for_a_flush() {
    let seen = Seen::default();
    let backend = with_telemetry(MemoryBackend::new(), seen.options());
    let handle = backend.telemetry();
    assert!(!poll_through(ask(&backend)));
    assert_eq!(poll_through(seen.lines(&handle)).len(), 1);
    assert_eq!(poll_through(seen.lines(&handle)).len(), 0);
}

/// Runs a future that never waits for anything, without a runtime.
fn poll_through<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..10 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
    panic!("it waits");
}

#[test]
fn nothing_that_prints_shows_more_than_counts() {
    let backend: Telemetry<MemoryBackend> =
        Telemetry::new(MemoryBackend::new(), TelemetryOptions::new().with_include_raw(true));
    assert_eq!(
        format!("{:?}", backend.telemetry()),
        "TelemetryHandle { dropped_events: 0, panics: 0 }"
    );
    assert!(format!("{:?}", TelemetryOptions::new()).contains("include_raw: \"never\""));
}
