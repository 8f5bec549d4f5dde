//! The log: what is in a line, at which level, and where it goes.

#![cfg(feature = "tracing")]

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use crate::common::{KEY, Store, TTL, request, subscribe, take};
use syncguard_memory::authoring::hash_key;
use syncguard_memory::contract::{Holder, IsLockedRequest, ReleaseRequest};
use syncguard_memory::{
    AcquisitionOptions, AutoExtend, ErrorCode, LockBackend, LockConfig, acquire, lock,
};
use syncguard_telemetry::{Telemetry, TelemetryOptions, with_telemetry};
use tracing::field::{Field, Visit};
use tracing::{Event, Instrument as _, Level, Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

#[tokio::test(start_paused = true)]
async fn a_line_has_the_fields_of_the_event_and_stands_in_the_callers_span() {
    let log = Log::default();
    let (backend, _subscriber) = logged(&log, Store::default());
    let lock_id = take(&backend, KEY).instrument(info_span!("checkout")).await.lock_id;
    let lines = log.lines(&backend).await;
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((line.level, line.span), (Level::DEBUG, Some("checkout")));
    let (key, id) = (hash_key(KEY), lock_id.hash_id());
    assert_eq!(
        line.text,
        format!(
            "message=a lock operation was answered backend=\"memory\" operation=\"acquire\" \
             result=\"ok\" duration_ms=0.0 holder={:?} key_hash={key} lock_id_hash={id} ",
            Holder::this_process().label()
        )
    );
    let unnamed = request("other").with_holder(Holder::unnamed());
    assert!(backend.acquire(unnamed).await.unwrap().is_acquired());
    let lines = log.lines(&backend).await;
    assert!(lines.len() == 1 && !lines[0].text.contains("holder"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn the_level_says_how_bad_it_is() {
    let log = Log::default();
    let store = Store::default();
    let (backend, _subscriber) = logged(&log, store.clone());
    let at = async || log.lines(&backend).await.last().map(|line| line.level);

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

#[tokio::test(start_paused = true)]
async fn raw_keys_and_lock_ids_stay_out_whatever_the_options_say() {
    let log = Log::default();
    let _subscriber = subscribe(log.clone());
    let options = TelemetryOptions::new().with_include_raw(true).with_tracing();
    let backend = with_telemetry(Store::default(), options);
    let lock_id = take(&backend, KEY).await.lock_id;
    let _ = backend.release(ReleaseRequest::new(lock_id)).await.unwrap();
    let lines = log.lines(&backend).await;
    assert_eq!(lines.len(), 2);
    for line in lines {
        assert!(!line.text.contains(KEY) && !line.text.contains(lock_id.expose()), "{line:?}");
    }
}

/// A failed request gives one line above `DEBUG`.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_fails_is_one_warning() {
    let log = Log::default();
    let store = Store::default();
    let (backend, _subscriber) = logged(&log, store.clone());
    for (code, level) in [
        (ErrorCode::ServiceUnavailable, Level::WARN),
        (ErrorCode::RateLimited, Level::WARN),
        (ErrorCode::AuthFailed, Level::ERROR),
        (ErrorCode::Internal, Level::ERROR),
    ] {
        store.fail(code, 1);
        let error = acquire(&backend, LockConfig::new(KEY)).await.unwrap_err();
        assert_eq!(error.code(), code);
        let lines = log.lines(&backend).await;
        let loud: Vec<_> = lines.iter().filter(|line| line.level <= Level::INFO).collect();
        assert!(loud.len() == 1 && loud[0].level == level, "{lines:?}");
    }
}

/// The guard does not log a loss that telemetry has logged.
#[tokio::test(start_paused = true)]
async fn a_loss_is_logged_once() {
    let log = Log::all();
    let (backend, _subscriber) = logged(&log, Store::default());
    let losses = async || {
        let lines = log.lines(&backend).await;
        lines.into_iter().filter(|line| line.text.contains("lost")).count()
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

fn logged(log: &Log, store: Store) -> (Telemetry<Store>, impl Sized) {
    let subscriber = subscribe(log.clone());
    (with_telemetry(store, TelemetryOptions::new().with_tracing()), subscriber)
}

#[derive(Clone, Default)]
struct Log {
    lines: Arc<Mutex<Vec<Line>>>,
    /// Also lines of other targets than telemetry's.
    all: bool,
}

#[derive(Debug)]
struct Line {
    level: Level,
    span: Option<&'static str>,
    text: String,
}

impl Log {
    fn all() -> Self {
        Self { all: true, ..Self::default() }
    }

    async fn lines(&self, backend: &Telemetry<Store>) -> Vec<Line> {
        backend.telemetry().flush().await;
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !self.all && event.metadata().target() != "syncguard::telemetry" {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let span = context.event_span(event).map(|span| span.name());
        let line = Line { level: *event.metadata().level(), span, text: text.0 };
        self.lines.lock().unwrap().push(line);
    }
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}
