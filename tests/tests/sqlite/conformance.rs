//! The contract, through every kind of client.

use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "seams")]
use std::time::Duration;

use rusqlite::params;
use syncguard_conformance::{Harness, Suite, conformance_tests};
#[cfg(feature = "seams")]
use syncguard_conformance::{Late, RequestGate};
#[cfg(feature = "seams")]
use syncguard_sqlite::Gate;
use syncguard_sqlite::{Fence, Key, SqliteBackend, SqliteOptions, Synchronous};

use crate::sqlite::support::File;

conformance_tests!(bare, Sqlite::new());

// The same cases, several at once on one file.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clones_of_one_backend() {
    // Not more, since a busy disk takes some 20 ms for each commit.
    const AT_ONCE: usize = 4;
    let mut harness = Sqlite::new();
    harness.shared = Some(harness.file.open().await);
    let report = Suite::new().at_once(AT_ONCE).run(harness).await;
    assert!(report.is_success(), "{report}");
}

struct Sqlite {
    file: File,
    /// If there is one, all handles are its clones.
    shared: Option<SqliteBackend>,
    connected: AtomicUsize,
}

impl Sqlite {
    fn new() -> Self {
        Self { file: File::new(), shared: None, connected: AtomicUsize::new(0) }
    }
}

/// The limit of an operation over a connection that can be late.
#[cfg(feature = "seams")]
const LIMIT: Duration = Duration::from_secs(3);

impl Harness for Sqlite {
    type Backend = SqliteBackend;

    async fn connect(&self) -> SqliteBackend {
        if let Some(backend) = &self.shared {
            return backend.clone();
        }
        // Half of the handles remove expired locks, and do not wait for the disk, which no case may notice.
        let odd = self.connected.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let synchronous = if odd { Synchronous::Normal } else { Synchronous::Full };
        let options = SqliteOptions::new().with_cleanup_in_is_locked(odd);
        self.file.open_with(options.with_synchronous(synchronous)).await
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        // The file and its tables are there when a backend has opened it.
        drop(self.file.open().await);
        let sql = "INSERT INTO fences VALUES (?1, ?2)";
        let last = i64::try_from(last.get()).expect("15 digits");
        self.file.raw().execute(sql, params![key.expose(), last]).expect("a counter");
    }

    async fn corrupt(&self, key: &Key) -> bool {
        let sql = "UPDATE locks SET lock_id = 'not an id' || key WHERE key = ?1";
        self.file.raw().execute(sql, [key.expose()]).expect("an update") == 1
    }

    /// Without the seam, nothing holds an operation back.
    #[cfg(feature = "seams")]
    async fn connect_late(&self) -> Option<Late<SqliteBackend>> {
        let gate = Gate::default();
        let options = SqliteOptions::new().with_operation_timeout(LIMIT).with_gate(gate.clone());
        let options = options.with_synchronous(Synchronous::Normal);
        let backend = self.file.open_with(options).await;
        Some(Late::new(backend, LIMIT + Duration::from_millis(500), FileGate(gate)))
    }
}

#[cfg(feature = "seams")]
struct FileGate(Gate);

#[cfg(feature = "seams")]
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
