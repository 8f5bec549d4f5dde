//! The contract, on the emulator.

use std::sync::atomic::{AtomicUsize, Ordering};

use syncguard_conformance::{Erased, Harness, Shared, conformance_tests, run_all};
use syncguard_firestore::{Fence, FirestoreBackend, Key};

use crate::support::{Raw, alone, backend_with, fresh, options, text};

conformance_tests!(bare, Firestore::new());

// The same cases, all at once, which is harder on the emulator and soon over.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arc() {
    passes(Shared(Firestore::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dyn_backend() {
    passes(Erased(Firestore::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_memory_of_locks() {
    passes(Firestore { remembered: 0, ..Firestore::new() }).await;
}

async fn passes(harness: impl Harness) {
    let _alone = alone().await;
    let report = run_all(harness).await;
    assert!(report.is_success(), "{report}");
}

struct Firestore {
    url: String,
    raw: Raw,
    remembered: usize,
    connected: AtomicUsize,
}

impl Firestore {
    fn new() -> Self {
        let url = fresh();
        let raw = Raw::new(&url);
        Self { url, raw, remembered: 100, connected: AtomicUsize::new(0) }
    }
}

impl Harness for Firestore {
    type Backend = FirestoreBackend;

    async fn connect(&self) -> FirestoreBackend {
        // Half of the handles clear expired locks away: nobody may notice.
        let cleanup = self.connected.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let options =
            options().with_cleanup_in_is_locked(cleanup).with_remembered_locks(self.remembered);
        backend_with(&self.url, options).await
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        let path = format!("fence_counters/fence:{}", key.expose());
        self.raw.set(&path, [("fence", text(&last.to_string()))]).await;
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let path = format!("locks/{}", key.expose());
        self.raw.set(&path, [("fence", text("not a fence"))]).await;
        true
    }
}
