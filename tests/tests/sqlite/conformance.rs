//! The contract, through every kind of client. The cases about late requests need a seam: see `seams`.

use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::params;
use syncguard_conformance::{Harness, Suite, conformance_tests};
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

pub(crate) struct Sqlite {
    pub(crate) file: File,
    /// If there is one, all handles are its clones.
    shared: Option<SqliteBackend>,
    connected: AtomicUsize,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        Self { file: File::new(), shared: None, connected: AtomicUsize::new(0) }
    }
}

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
}
