//! The contract, on a bucket in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use syncguard_conformance::{Harness, Late, Suite};
use syncguard_object_store::{Fence, Key, ObjectStoreBackend, ObjectStoreOptions};

use crate::object_store::bucket::{Bucket, Kind};

/// To the millisecond, by a clock that is known exactly.
#[cfg(feature = "seams")]
mod exact {
    syncguard_conformance::conformance_tests!(
        in_memory,
        crate::object_store::conformance::Objects::<true>::new()
    );
}

/// The bounds of the time, as the changes of an object tell it, are some milliseconds wide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_passes_by_the_time_of_the_bucket() {
    let report = Suite::new().at_once(40).run(Objects::<false>::new()).await;
    assert!(report.is_success(), "{report}");
}

pub(crate) struct Objects<const EXACT: bool> {
    bucket: Arc<Bucket>,
    connected: AtomicUsize,
}

impl<const EXACT: bool> Objects<EXACT> {
    pub(crate) fn new() -> Self {
        Self { bucket: Bucket::new(Kind::Right), connected: AtomicUsize::new(0) }
    }

    /// Half of the handles remove expired locks, and half remember no locks, which no case may notice.
    fn options(&self) -> ObjectStoreOptions {
        let number = self.connected.fetch_add(1, Ordering::Relaxed);
        let options = ObjectStoreOptions::new()
            .with_cleanup_in_is_locked(number % 2 == 1)
            .with_remembered_locks(if number % 4 < 2 { 100 } else { 0 });
        #[cfg(feature = "seams")]
        if EXACT {
            let bucket = Arc::clone(&self.bucket);
            return options.without_probes().with_clock(move || bucket.now());
        }
        options
    }
}

impl<const EXACT: bool> Harness for Objects<EXACT> {
    type Backend = ObjectStoreBackend;

    const PAUSED_CLOCK: bool = EXACT;

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
        let slack = Duration::from_millis(if EXACT { 0 } else { 500 });
        Some(Late::new(line.backend(options), LIMIT + slack, line))
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let fields = r#""fence":"000000000000001","lock":{"fence":"not a fence"}"#;
        self.bucket.write(key.expose(), fields);
        true
    }
}
