//! The cases of the contract about requests that are late, on a file.

use std::time::Duration;

use syncguard_conformance::{Group, Harness, Late, RequestGate, Suite, Verdict};
use syncguard_sqlite::operation_gate::Gate;
use syncguard_sqlite::{Fence, Key, SqliteBackend, SqliteOptions, Synchronous};

use crate::sqlite::conformance::Sqlite;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_late_change_nothing() {
    let suite = Suite::new().only(|case| case.group == Group::Late).at_once(4);
    let report = suite.run(Gated(Sqlite::new())).await;
    let passed = report.results.iter().all(|(_, result)| *result == Ok(Verdict::Passed));
    assert!(report.results.len() > 3 && passed, "{report}");
}

struct Gated(Sqlite);

/// The limit of an operation over a connection that can be late.
const LIMIT: Duration = Duration::from_secs(3);

impl Harness for Gated {
    type Backend = SqliteBackend;

    async fn connect(&self) -> SqliteBackend {
        self.0.connect().await
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.0.set_fence_counter(key, last).await;
    }

    async fn connect_late(&self) -> Option<Late<SqliteBackend>> {
        let gate = Gate::default();
        let options = SqliteOptions::new().with_operation_timeout(LIMIT).with_gate(gate.clone());
        let options = options.with_synchronous(Synchronous::Normal);
        let backend = self.0.file.open_with(options).await;
        Some(Late::new(backend, LIMIT + Duration::from_millis(500), FileGate(gate)))
    }
}

struct FileGate(Gate);

impl RequestGate for FileGate {
    fn hold(&self) {
        self.0.hold();
    }

    fn holds(&self) -> bool {
        self.0.holds()
    }

    fn cut(&self) {
        self.0.cut();
    }

    fn deliver(&self) {
        self.0.deliver();
    }
}
