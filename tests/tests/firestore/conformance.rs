//! The contract, on the emulator.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use syncguard_conformance::{Case, Erased, Group, Harness, Late, Shared, cases, run};
use syncguard_firestore::{Fence, FirestoreBackend, Key};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::line::ProxiedLine;
use crate::support::{Raw, alone, backend_with, fresh, options, options_at, shared, text};

/// How many cases at once: enough that those which wait for an expiry wait side by side, and so few
/// that the emulator answers in time on a busy machine.
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
    keys Keys
    errors Errors
    cancellation Cancellation
    late Late
    concurrency Concurrency
    cleanup Cleanup
}

async fn group_passes(group: Group) {
    let of_group = cases().iter().filter(|case| case.group == group);
    all_pass(Firestore::new(), of_group.collect()).await;
}

async fn passes(harness: impl Harness) {
    let _alone = alone().await;
    all_pass(harness, cases().iter().collect()).await;
}

async fn all_pass(harness: impl Harness, cases: Vec<&'static Case>) {
    assert!(!cases.is_empty(), "there is nothing to pass");
    let (harness, slots) = (Arc::new(harness), Arc::new(Semaphore::new(AT_ONCE)));
    let mut tasks = JoinSet::new();
    for case in cases {
        let (harness, slots) = (Arc::clone(&harness), Arc::clone(&slots));
        tasks.spawn(async move {
            let _slot = slots.acquire().await;
            (case, run(case.name, &*harness).await)
        });
    }
    let mut failures = Vec::new();
    for (case, result) in tasks.join_all().await {
        let Err(failure) = result else { continue };
        // Beside nine others, on a machine that builds something else, time may run out. A backend
        // that hangs or forgets does so alone as well.
        let was_slow = SLOW.iter().any(|slow| failure.message().contains(slow));
        let failure = if was_slow { run(case.name, &*harness).await.err() } else { Some(failure) };
        failures.extend(failure.map(|failure| failure.to_string()));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What a case says that ran out of time: of the suite's 30 s for each, of the tolerance to look at,
/// of the 2 s for what goes on in the background.
const SLOW: [&str; 3] = ["it was not done after", "too slow to say anything", "after 2 s"];

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

    async fn connect_late(&self) -> Option<Late<FirestoreBackend>> {
        const LIMIT: Duration = Duration::from_secs(2);
        const SLACK: Duration = Duration::from_millis(500);
        let (line, port) = ProxiedLine::start(shared().port());
        let options = options_at(port).with_remembered_locks(self.remembered);
        let options = options.with_request_timeout(LIMIT).with_operation_timeout(2 * LIMIT);
        // Without a memory each operation reads first, and what is late is its commit.
        let line = line.after(u64::from(self.remembered == 0));
        let backend = backend_with(&self.url, options).await;
        Some(Late::new(backend, 2 * LIMIT + SLACK, line))
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let path = format!("locks/{}", key.expose());
        self.raw.set(&path, [("fence", text("not a fence"))]).await;
        true
    }
}
