//! Without a driver: only the library's own lines.

use syncguard_conformance::Harness;
use syncguard_core::{Fence, Key};
use syncguard_memory::MemoryBackend;

use crate::net::Net;
use crate::scenario::{alone, locks, nothing_was_given_away, suite};
use crate::watched::watched;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_backend_says_nothing() {
    let net = Net::global();
    let _alone = alone().await;
    suite(Memory::default()).await;
    locks(&watched(net, MemoryBackend::new())).await;
    nothing_was_given_away(&["syncguard_core", "syncguard::telemetry", "an event", "an error"])
        .await;
}

#[derive(Default)]
struct Memory(MemoryBackend);

impl Harness for Memory {
    type Backend = MemoryBackend;

    async fn connect(&self) -> MemoryBackend {
        self.0.clone()
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.0.set_fence_counter(key, last);
    }
}
