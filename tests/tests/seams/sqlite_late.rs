//! The cases of the contract about requests that are late, on a file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_conformance::{Group, Harness, Late, RequestGate, Suite, Verdict};
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
        let passage = gate.clone();
        let options = SqliteOptions::new().with_operation_timeout(LIMIT);
        let options = options.with_synchronous(Synchronous::Normal);
        let options = options.with_passage(move |operation| passage.pass(operation));
        let backend = self.0.file.open_with(options).await;
        Some(Late::new(backend, LIMIT + Duration::from_millis(500), gate))
    }
}

/// Holds operations back before they reach the writer thread, like a slow network before other stores.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_shut: bool,
    held: Vec<Box<dyn FnOnce() + Send>>,
}

impl Gate {
    fn pass(&self, operation: Box<dyn FnOnce() + Send>) {
        let mut state = self.state();
        if state.is_shut {
            return state.held.push(operation);
        }
        drop(state);
        operation();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestGate for Gate {
    fn hold(&self) {
        self.state().is_shut = true;
    }

    fn holds(&self) -> bool {
        !self.state().held.is_empty()
    }

    fn cut(&self) {
        self.state().is_shut = false;
    }

    fn deliver(&self) {
        let State { held, .. } = std::mem::take(&mut *self.state());
        for operation in held {
            operation();
        }
    }
}
