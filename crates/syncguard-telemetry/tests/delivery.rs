//! Slow and broken callbacks do not disturb locking. No test here depends on a duration.

use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::common::{KEY, Seen, take};
use syncguard_memory::contract::{IsLockedRequest, ReleaseRequest};
use syncguard_memory::{LockBackend, MemoryBackend};
use syncguard_telemetry::{EventKind, Telemetry, TelemetryOptions, with_telemetry};
use tokio::runtime::Builder;

/// A callback that reports its call and then blocks until the test lets it go on.
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
            // An error: the test has dropped its end, so the callback need not wait.
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

/// In a runtime with one thread, operations get through while a callback blocks.
#[tokio::test]
async fn a_slow_callback_delays_no_operation() {
    let (gate, options) = Gate::new(TelemetryOptions::new());
    let backend = with_telemetry(MemoryBackend::new(), options);
    cycle(&backend).await;
    gate.called.recv().unwrap();
    for _ in 0..100 {
        cycle(&backend).await;
    }
    assert_eq!(backend.telemetry().dropped_events(), 0);
    drop(gate);
    backend.telemetry().flush().await;
}

#[tokio::test]
async fn events_beyond_the_capacity_are_dropped_and_counted() {
    let seen = Seen::default();
    let (gate, options) = Gate::new(seen.options().with_queue_capacity(4));
    let backend = with_telemetry(MemoryBackend::new(), options);
    ask(&backend).await;
    gate.called.recv().unwrap();
    // One event is with the callback, four wait, and six are dropped.
    for _ in 0..10 {
        ask(&backend).await;
    }
    assert_eq!(backend.telemetry().dropped_events(), 6);
    drop(gate.go_on);
    let handle = backend.telemetry();
    assert_eq!(seen.lines(&handle).await.len(), 5);
    // There is room again.
    ask(&backend).await;
    assert_eq!(seen.lines(&handle).await.len(), 1);
    assert_eq!((handle.dropped_events(), handle.panics()), (6, 0));
    // The counter is of the whole process, so other tests may have dropped events, too.
    #[cfg(feature = "opentelemetry")]
    {
        let exported = crate::common::metrics::Exported::new();
        let _backend = with_telemetry(MemoryBackend::new(), exported.options());
        let dropped = exported.now().counter("syncguard.telemetry.dropped_events", "{event}");
        assert!(dropped[0].1 >= 6, "{dropped:?}");
    }
}

/// The queue allocates for the events that wait, not for its capacity.
#[tokio::test]
async fn a_capacity_without_a_limit_works() {
    let seen = Seen::default();
    let options = seen.options().with_queue_capacity(usize::MAX);
    let backend = with_telemetry(MemoryBackend::new(), options);
    cycle(&backend).await;
    assert_eq!(seen.lines(&backend.telemetry()).await.len(), 2);
    assert_eq!(backend.telemetry().dropped_events(), 0);
}

#[tokio::test]
async fn a_panic_in_a_callback_is_contained_and_counted() {
    let panics = || -> bool { panic!("as the test wants it") };
    let seen = Seen::default();
    let options = TelemetryOptions::new()
        .with_on_event(move |_| assert!(panics()))
        .with_include_raw(move |_| panics())
        // Callbacks after the broken one get every event.
        .with_on_event(seen.callback());
    let backend = with_telemetry(MemoryBackend::new(), options);
    cycle(&backend).await;
    cycle(&backend).await;
    let handle = backend.telemetry();
    assert_eq!(seen.lines(&handle).await.len(), 4);
    assert_eq!((handle.panics(), handle.dropped_events()), (8, 0));
}

/// A program whose callback never returns still ends when its `main` returns.
#[test]
fn a_callback_that_blocks_for_ever_holds_no_process_up() {
    let name = "delivery::a_callback_that_blocks_for_ever_holds_no_process_up";
    let program = "SYNCGUARD_TELEMETRY_TEST_PROGRAM";
    if std::env::var_os(program).is_some() {
        return program_with_a_callback_that_blocks_for_ever();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(program, "1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the program does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{status}");
}

fn program_with_a_callback_that_blocks_for_ever() {
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = builder.enable_all().build().unwrap();
        let (gate, options) = Gate::new(TelemetryOptions::new());
        let backend = with_telemetry(MemoryBackend::new(), options);
        runtime.block_on(cycle(&backend));
        gate.called.recv().unwrap();
        // The callback never goes on.
        std::mem::forget(gate.go_on);
        let handle = backend.telemetry();
        let flush = async { tokio::time::timeout(Duration::from_millis(20), handle.flush()).await };
        assert!(runtime.block_on(flush).is_err());
        drop(backend);
        drop(runtime);
    }
}

/// Drops many queues while their threads are in any state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_dropped_at_any_moment_loses_no_event() {
    for round in 0..3000 {
        let (told, events) = channel();
        let options =
            TelemetryOptions::new().with_on_event(move |event| told.send(event.kind).unwrap());
        let backend = with_telemetry(MemoryBackend::new(), options);
        ask(&backend).await;
        // To yield would give whole time slices to other programs of a busy machine.
        for _ in 0..round % 60 * 100 {
            std::hint::spin_loop();
        }
        ask(&backend).await;
        drop(backend);
        let limit = Duration::from_secs(20);
        for _ in 0..2 {
            events.recv_timeout(limit).expect("an event");
        }
        assert_eq!(events.recv_timeout(limit), Err(RecvTimeoutError::Disconnected));
    }
}

#[tokio::test]
async fn a_callback_can_use_the_runtime_of_the_operation() {
    let (told, spawned) = channel();
    let options = TelemetryOptions::new().with_on_event(move |event| {
        let (told, kind) = (told.clone(), event.kind);
        tokio::spawn(async move { told.send(kind).unwrap() });
    });
    let backend = with_telemetry(MemoryBackend::new(), options);
    let handle = backend.telemetry();
    for _ in 0..3 {
        ask(&backend).await;
        handle.flush().await;
        tokio::task::yield_now().await;
    }
    assert_eq!(handle.panics(), 0);
    drop(backend);
    assert_eq!(spawned.try_iter().count(), 3);
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
    // The channel ends when the callbacks are dropped, so this also shows that nothing is leaked.
    assert_eq!(events.iter().collect::<Vec<_>>(), ["acquire", "release"]);
}

#[test]
fn a_backend_outlives_its_runtime() {
    let seen = Seen::default();
    let backend = with_telemetry(MemoryBackend::new(), seen.options());
    let handle = backend.telemetry();
    for _ in 0..3 {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ask(&backend));
        runtime.shutdown_background();
    }
    let runtime = Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(seen.lines(&handle)).len(), 3);
    assert_eq!(handle.dropped_events(), 0);
}

#[test]
fn no_runtime_is_needed() {
    let (told, events) = channel();
    let options =
        TelemetryOptions::new().with_on_event(move |event| told.send(event.kind).unwrap());
    let backend = with_telemetry(MemoryBackend::new(), options);
    // This future is ready at its first poll.
    let mut asking = pin!(ask(&backend));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(asking.as_mut().poll(&mut context), Poll::Ready(false));
    assert_eq!(events.recv_timeout(Duration::from_secs(20)), Ok(EventKind::IsLocked));
}

#[test]
fn nothing_that_prints_shows_more_than_counts() {
    let backend: Telemetry<MemoryBackend> =
        with_telemetry(MemoryBackend::new(), TelemetryOptions::new().with_include_raw(|_| true));
    assert_eq!(
        format!("{:?}", backend.telemetry()),
        "TelemetryHandle { dropped_events: 0, panics: 0 }"
    );
    assert!(format!("{:?}", TelemetryOptions::new()).contains("include_raw: \"never\""));
}
