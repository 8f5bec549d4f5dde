//! A store that has lost its fence counters. This test is a program of its own, as `signals_log.rs` is.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::FaultyBackend;
use syncguard_core::{LockConfig, acquire};
use syncguard_memory::MemoryBackend;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Counts the errors in the log.
#[derive(Clone, Default)]
struct Errors(Arc<AtomicU32>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::ERROR
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn fences_that_start_again_are_logged_once_for_each_loss() {
    let errors = Errors::default();
    let _here = tracing::subscriber::set_default(errors.clone());
    let mut backend = FaultyBackend::new();
    let other = FaultyBackend::new();
    for loss in 0..3 {
        for fence in 1..4 {
            for backend in [&backend, &other] {
                let config = LockConfig::new("k").with_ttl(Duration::from_secs(30));
                let guard = acquire(backend, config).await.unwrap();
                assert!(guard.fence().get() >= fence);
                guard.release().await.unwrap();
            }
            assert_eq!(errors.0.load(Ordering::Relaxed), loss);
        }
        backend.store = MemoryBackend::new();
    }
}
