//! The memory backend keeps the whole contract, and its wrappers pass it on.

use syncguard_conformance::{
    Case, Decorated, Erased, Group, Harness, Shared, Suite, cases, conformance_tests,
};
use syncguard_memory::{Fence, Key, LockBackend, MemoryBackend, TestStore, forward};

conformance_tests!(bare, Memory::<true>::default());

#[tokio::test(start_paused = true)]
async fn wrapped() {
    let memory = Memory::<true>::default;
    for report in [
        few().run(Shared(memory())).await,
        few().run(Erased(memory())).await,
        few().run(Decorated::new(memory(), PassThrough)).await,
        few().run(WithoutFaults::default()).await,
    ] {
        assert!(report.is_success(), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_real_clock() {
    let report = few().run(Memory::<false>::default()).await;
    assert!(report.is_success(), "{report}");
}

/// Cases that call each method of a backend: a wrapper only passes the calls on, and must not cut one short.
pub(crate) fn few() -> Suite {
    let is_first =
        |case: &Case| cases().iter().find(|first| first.group == case.group) == Some(case);
    Suite::new().only(|case| is_first(case) || case.group == Group::Cancellation)
}

#[derive(Default)]
pub(crate) struct Memory<const PAUSED: bool>(MemoryBackend);

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

/// The store for tests of users.
#[derive(Default)]
struct WithoutFaults(TestStore);

impl Harness for WithoutFaults {
    type Backend = TestStore;

    const PAUSED_CLOCK: bool = true;

    async fn connect(&self) -> TestStore {
        self.0.clone()
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.0.memory().set_fence_counter(key, last);
    }
}

/// A decorator that changes nothing.
#[derive(Clone)]
struct PassThrough<B>(B);

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for PassThrough<B> {
    type Fence = B::Fence;

    forward!(0: acquire, release, extend, is_locked, lookup);
    forward!(0: watch, health, inventory, capabilities, client_state);
}
