//! The contract, on a bucket in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use syncguard_conformance::{Harness, Late, conformance_tests};
use syncguard_object_store::{Fence, Key, ObjectStoreBackend, ObjectStoreOptions};

use crate::object_store::bucket::{Bucket, Kind};

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
