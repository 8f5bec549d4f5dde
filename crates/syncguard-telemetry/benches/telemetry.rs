//! The cost of telemetry, and the cost without it. `cargo xtask bench telemetry`
//!
//! Each line is 1 000 cycles on one key. Allocations are counted as well.

#![allow(clippy::wildcard_imports, reason = "the modules only group the output")]

use std::hint::black_box;

use divan::{AllocProfiler, Bencher, counter::ItemsCount};
use syncguard_memory::contract::{AcquireRequest, ReleaseRequest};
use syncguard_memory::{Key, LockBackend, MemoryBackend, Ttl, try_acquire};
use syncguard_telemetry::{Telemetry, TelemetryOptions, with_telemetry};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const CYCLES: usize = 1_000;
const KEY: &str = "payment:0123456789";

fn main() {
    divan::main();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn silent() -> Telemetry<MemoryBackend> {
    with_telemetry(MemoryBackend::new(), TelemetryOptions::new())
}

fn with_callback() -> Telemetry<MemoryBackend> {
    let options = TelemetryOptions::new().with_on_event(|event| {
        black_box(event);
    });
    with_telemetry(MemoryBackend::new(), options)
}

#[cfg(feature = "tracing")]
fn with_tracing() -> Telemetry<MemoryBackend> {
    with_telemetry(MemoryBackend::new(), TelemetryOptions::new().with_tracing())
}

#[cfg(feature = "opentelemetry")]
fn with_opentelemetry() -> Telemetry<MemoryBackend> {
    use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
    use syncguard_telemetry::opentelemetry::metrics::MeterProvider as _;

    let reader = PeriodicReader::builder(InMemoryMetricExporter::default()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    // A dropped provider would stop counting.
    std::mem::forget(provider.clone());
    let options = TelemetryOptions::new().with_opentelemetry(&provider.meter("bench"));
    with_telemetry(MemoryBackend::new(), options)
}

/// A benchmark for each way to be observed.
macro_rules! benches {
    () => {
        #[divan::bench]
        fn a_without(bencher: Bencher<'_, '_>) {
            cycles(bencher, &MemoryBackend::new());
        }

        #[divan::bench]
        fn b_decorated_for_nobody(bencher: Bencher<'_, '_>) {
            cycles(bencher, &silent());
        }

        #[divan::bench]
        fn c_callback(bencher: Bencher<'_, '_>) {
            cycles(bencher, &with_callback());
        }

        #[cfg(feature = "tracing")]
        #[divan::bench]
        fn d_tracing(bencher: Bencher<'_, '_>) {
            cycles(bencher, &with_tracing());
        }

        #[cfg(feature = "opentelemetry")]
        #[divan::bench]
        fn e_opentelemetry(bencher: Bencher<'_, '_>) {
            cycles(bencher, &with_opentelemetry());
        }
    };
}

/// Acquire and release.
mod operations {
    use super::*;

    benches!();

    fn cycles(bencher: Bencher<'_, '_>, backend: &impl LockBackend) {
        let key = Key::new(KEY).unwrap();
        let runtime = runtime();
        bencher.counter(ItemsCount::new(CYCLES)).bench_local(|| {
            runtime.block_on(async {
                for _ in 0..CYCLES {
                    let request = AcquireRequest::new(&key, Ttl::DEFAULT).unwrap();
                    let lock = backend.acquire(request).await.unwrap().acquired().unwrap();
                    let release = ReleaseRequest::new(lock.lock_id);
                    let _ = black_box(backend.release(release).await.unwrap());
                }
            });
        });
    }
}

/// Acquire and release through a guard, which reports wait and hold as well.
mod guards {
    use super::*;

    benches!();

    fn cycles(bencher: Bencher<'_, '_>, backend: &impl LockBackend) {
        let runtime = runtime();
        bencher.counter(ItemsCount::new(CYCLES)).bench_local(|| {
            runtime.block_on(async {
                for _ in 0..CYCLES {
                    let guard = try_acquire(backend, KEY).await.unwrap().acquired().unwrap();
                    let _ = black_box(guard.release().await.unwrap());
                }
            });
        });
    }
}
