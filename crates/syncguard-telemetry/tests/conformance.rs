//! The decorator keeps the contract: around a backend, around a `DynBackend`, inside a `DynBackend`, and around
//! another decorator.

use syncguard_conformance::{Case, Decorated, Erased, Group, Harness, Suite, cases};
use syncguard_memory::{Fence, Key, LockBackend, MemoryBackend};
use syncguard_telemetry::{Telemetry, TelemetryOptions, with_telemetry};

#[tokio::test(start_paused = true)]
async fn on_a_paused_clock() {
    let memory = Memory::<true>::default;
    for report in [
        few().run(Decorated::new(memory(), observed)).await,
        few().run(Decorated::new(Erased(memory()), observed)).await,
        few().run(Erased(Decorated::new(memory(), observed))).await,
    ] {
        assert!(report.is_success(), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twice_on_the_real_clock() {
    let twice = Decorated::new(Decorated::new(Memory::<false>::default(), observed), observed);
    let report = few().run(twice).await;
    assert!(report.is_success(), "{report}");
}

/// Cases that call each method of a backend: a decorator only passes the calls on, and must not cut one short.
fn few() -> Suite {
    let is_first =
        |case: &Case| cases().iter().find(|first| first.group == case.group) == Some(case);
    Suite::new().only(|case| is_first(case) || case.group == Group::Cancellation)
}

/// With all options, and a queue that is often full.
fn observed<B: LockBackend>(backend: B) -> Telemetry<B> {
    let options = TelemetryOptions::new()
        .with_on_event(|event| {
            assert!(event.lock_id_hash.is_some() || event.key_hash.is_some());
        })
        .with_queue_capacity(8);
    #[cfg(feature = "tracing")]
    let options = options.with_tracing();
    #[cfg(feature = "opentelemetry")]
    let options = {
        use std::sync::LazyLock;

        use crate::common::metrics::Exported;

        static EXPORTED: LazyLock<Exported> = LazyLock::new(Exported::new);
        options.with_opentelemetry(&EXPORTED.meter())
    };
    with_telemetry(backend, options)
}

#[derive(Default)]
struct Memory<const PAUSED: bool>(MemoryBackend);

impl<const PAUSED: bool> Harness for Memory<PAUSED> {
    type Backend = MemoryBackend;

    const PAUSED_CLOCK: bool = PAUSED;

    async fn connect(&self) -> MemoryBackend {
        self.0.clone()
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.0.set_fence_counter(key, last);
    }
}
