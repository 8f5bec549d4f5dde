//! The contract, on the emulator.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use syncguard_conformance::{Group, Harness, Late, Suite, cases};
use syncguard_firestore::{Fence, FirestoreBackend, Key};

use crate::firestore::support::{
    Raw, alone, backend_with, fresh, options, options_at, shared, text,
};
use crate::support::gate::ProxyGate;

/// The number of concurrent cases: enough that cases which wait for an expiry wait side by side, and so few that the
/// emulator answers in time on a busy machine.
const AT_ONCE: usize = 10;

/// A test of each group of cases. Most cases wait for an expiry: those of a group do so side by side.
macro_rules! groups {
    ($($name:ident $group:ident)+) => {
        mod bare {
            use super::{GROUPS, Group, cases, group_passes};

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                group_passes(Group::$group).await;
            })+

            #[test]
            fn no_group_is_left_out() {
                assert!(cases().iter().all(|case| GROUPS.contains(&case.group)));
            }
        }

        const GROUPS: &[Group] = &[$(Group::$group),+];
    };
}

groups! {
    lifecycle Lifecycle
    contention Contention
    ownership Ownership
    expectation Expectation
    expiration Expiration
    fencing Fencing
    lookup Lookup
    hints Hints
    keys Keys
    errors Errors
    cancellation Cancellation
    late Late
    concurrency Concurrency
    cleanup Cleanup
    signals Signals
    inventory Inventory
    windows Windows
}

/// With more groups at once, the emulator answers too late.
static TURNS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);

async fn group_passes(group: Group) {
    let _turn = TURNS.acquire().await.expect("never closed");
    let of_group = Suite::new().only(|case| case.group == group);
    all_pass(Firestore::new(), of_group).await;
}

async fn all_pass(harness: impl Harness, suite: Suite) {
    let report = suite.at_once(AT_ONCE).run(harness).await;
    assert!(report.is_success(), "{report}");
}

/// The suite once more, without a memory of locks.
mod long {
    use super::{Firestore, Suite, all_pass, alone};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn without_a_memory_of_locks() {
        let _alone = alone().await;
        all_pass(Firestore { remembered: 0, ..Firestore::new() }, Suite::new()).await;
    }
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
        // Half of the handles remove expired locks, which no case may notice.
        let cleanup = self.connected.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let options =
            options().with_cleanup_in_is_locked(cleanup).with_remembered_locks(self.remembered);
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
        let options = options_at(port).with_remembered_locks(self.remembered);
        let options = options.with_request_timeout(LIMIT).with_operation_timeout(2 * LIMIT);
        // Without a memory each operation reads first, and its commit is the late request.
        let gate = gate.after(u64::from(self.remembered == 0));
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
