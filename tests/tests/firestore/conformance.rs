//! The contract, on the emulator.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use syncguard_conformance::{Harness, Late, Suite};
use syncguard_firestore::{Fence, FirestoreBackend, Key};

use crate::firestore::support::{Raw, backend_with, fresh, options, options_at, shared, text};
use crate::support::gate::ProxyGate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_passes() {
    // Enough that cases which wait for an expiry wait side by side, and so few that the emulator answers in time on a
    // busy machine.
    let report = Suite::new().at_once(20).run(Firestore::new()).await;
    assert!(report.is_success(), "{report}");
}

struct Firestore {
    url: String,
    raw: Raw,
    connected: AtomicUsize,
}

impl Firestore {
    fn new() -> Self {
        let url = fresh();
        let raw = Raw::new(&url);
        Self { url, raw, connected: AtomicUsize::new(0) }
    }

    /// Half of the handles remove expired locks, and half remember no locks, which no case may notice.
    fn kind(&self) -> (bool, usize) {
        let number = self.connected.fetch_add(1, Ordering::Relaxed);
        (number % 2 == 1, if number % 4 < 2 { 100 } else { 0 })
    }
}

impl Harness for Firestore {
    type Backend = FirestoreBackend;

    async fn connect(&self) -> FirestoreBackend {
        let (cleanup, remembered) = self.kind();
        let options = options().with_cleanup_in_is_locked(cleanup);
        let options = options.with_remembered_locks(remembered);
        backend_with(&self.url, options).await
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        let path = format!("fence_counters/fence:{}", key.expose());
        self.raw.set(&path, [("fence", text(&last.to_string()))]).await;
    }

    async fn connect_late(&self) -> Option<Late<FirestoreBackend>> {
        const LIMIT: Duration = Duration::from_secs(2);
        const SLACK: Duration = Duration::from_millis(500);
        let (gate, port) = ProxyGate::start(shared().port());
        let (_, remembered) = self.kind();
        let options = options_at(port).with_remembered_locks(remembered);
        let options = options.with_request_timeout(LIMIT).with_operation_timeout(2 * LIMIT);
        // Without a memory each operation reads first, and its commit is the late request.
        let gate = gate.after(u64::from(remembered == 0));
        let backend = backend_with(&self.url, options).await;
        Some(Late::new(backend, 2 * LIMIT + SLACK, gate))
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let path = format!("locks/{}", key.expose());
        let fields = [("fence", text("not a fence")), ("key", text(key.expose()))];
        self.raw.set(&path, fields).await;
        true
    }
}
