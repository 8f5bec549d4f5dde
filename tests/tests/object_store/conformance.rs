//! The contract, on a bucket in this process and on the emulator of Azure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use syncguard_conformance::{Harness, Late, Suite, conformance_tests};
use syncguard_object_store::{Fence, Key, ObjectStoreBackend, ObjectStoreOptions};

use crate::object_store::bucket::{Bucket, Kind};
use crate::object_store::support::{Raw, backend_at, fresh, options, shared};
use crate::support::gate::ProxyGate;

conformance_tests!(in_memory, Objects::new());

struct Objects {
    bucket: Arc<Bucket>,
    connected: AtomicUsize,
}

impl Objects {
    fn new() -> Self {
        Self { bucket: Bucket::new(Kind::Right), connected: AtomicUsize::new(0) }
    }

    /// Half of the handles remove expired locks, and half remember no locks, which no case may notice.
    fn options(&self) -> ObjectStoreOptions {
        let number = self.connected.fetch_add(1, Ordering::Relaxed);
        let bucket = Arc::clone(&self.bucket);
        // A clock that is known exactly: the suite judges the end of a lock to the millisecond.
        ObjectStoreOptions::new()
            .with_cleanup_in_is_locked(number % 2 == 1)
            .with_remembered_locks(if number % 4 < 2 { 100 } else { 0 })
            .without_probes()
            .with_clock(move || bucket.now())
    }
}

impl Harness for Objects {
    type Backend = ObjectStoreBackend;

    const PAUSED_CLOCK: bool = true;

    async fn connect(&self) -> ObjectStoreBackend {
        self.bucket.line().backend(self.options())
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.bucket.write(key.expose(), &format!(r#""fence":"{last}""#));
    }

    async fn connect_late(&self) -> Option<Late<ObjectStoreBackend>> {
        const LIMIT: Duration = Duration::from_secs(2);
        let line = self.bucket.line();
        // There is no time for another try, which would go over a new connection.
        let options = self.options().with_request_timeout(LIMIT).with_operation_timeout(LIMIT);
        Some(Late::new(line.backend(options), LIMIT, line))
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let fields = r#""fence":"000000000000001","lock":{"fence":"not a fence"}"#;
        self.bucket.write(key.expose(), fields);
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_passes() {
    let report = Suite::new().at_once(20).run(Azure::default()).await;
    assert!(report.is_success(), "{report}");
}

struct Azure {
    prefix: String,
    connected: AtomicUsize,
}

impl Default for Azure {
    fn default() -> Self {
        Self { prefix: fresh(), connected: AtomicUsize::new(0) }
    }
}

impl Azure {
    /// Half of the handles remove expired locks, and half remember no locks, which no case may notice.
    fn kind(&self) -> (bool, usize) {
        let number = self.connected.fetch_add(1, Ordering::Relaxed);
        (number % 2 == 1, if number % 4 < 2 { 100 } else { 0 })
    }
}

impl Harness for Azure {
    type Backend = ObjectStoreBackend;

    async fn connect(&self) -> ObjectStoreBackend {
        let (cleanup, remembered) = self.kind();
        let options = options().with_cleanup_in_is_locked(cleanup);
        // A new backend knows the time to within a second, and so finds locks over too late for the cases.
        let options = options.with_remembered_locks(remembered).without_probes();
        backend_at(shared().port(), &self.prefix, options).await
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        Raw::new().write(&self.prefix, key.expose(), &format!(r#""fence":"{last}""#)).await;
    }

    async fn connect_late(&self) -> Option<Late<ObjectStoreBackend>> {
        const LIMIT: Duration = Duration::from_secs(4);
        const SLACK: Duration = Duration::from_millis(500);
        let (gate, port) = ProxyGate::start(shared().port());
        let (_, remembered) = self.kind();
        let options = options().with_remembered_locks(remembered).without_probes();
        let options = options.with_request_timeout(LIMIT).with_operation_timeout(LIMIT);
        // Without a memory each operation reads first, and its write is the late request.
        let gate = gate.after(u64::from(remembered == 0));
        let backend = backend_at(port, &self.prefix, options).await;
        Some(Late::new(backend, LIMIT + SLACK, gate))
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let fields = r#""fence":"000000000000001","lock":{"fence":"not a fence"}"#;
        Raw::new().write(&self.prefix, key.expose(), fields).await;
        true
    }
}
