//! The memory backend keeps the whole contract, in every wrapper and on both clocks.

use syncguard_conformance::{Decorated, Erased, Harness, Shared, Suite, conformance_tests};
use syncguard_memory::{Fence, Key, LockBackend, MemoryBackend, TestStore, forward};

conformance_tests!(bare, Memory::<true>::default());
conformance_tests!(shared, Shared(Memory::<true>::default()));
conformance_tests!(erased, Erased(Memory::<true>::default()));
conformance_tests!(decorated, Decorated::new(Memory::<true>::default(), PassThrough));
conformance_tests!(test_store, WithoutFaults::default());

#[tokio::test(flavor = "multi_thread")]
async fn on_the_real_clock() {
    let report = Suite::new().run(Memory::<false>::default()).await;
    assert!(report.is_success(), "{report}");
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
