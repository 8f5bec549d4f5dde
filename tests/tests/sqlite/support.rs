//! Files for locks, and direct access to them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rusqlite::Connection;
use rustix::process::getuid;
use syncguard_sqlite::contract::{AcquireRequest, Acquired};
use syncguard_sqlite::{LockBackend as _, SqliteBackend, SqliteOptions};
use tempfile::TempDir;

/// A lock file in a folder of its own. Clones are the same file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    folder: Arc<TempDir>,
}

impl File {
    pub(crate) fn new() -> Self {
        Self { folder: Arc::new(tempfile::tempdir().expect("a folder")) }
    }

    /// On a disk, even if the system's temporary folder is in memory.
    pub(crate) fn on_disk() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        Self { folder: Arc::new(folder) }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    pub(crate) async fn open(&self) -> SqliteBackend {
        self.open_with(SqliteOptions::new()).await
    }

    pub(crate) async fn open_with(&self, options: SqliteOptions) -> SqliteBackend {
        SqliteBackend::open_with(self.path(), options).await.expect("a lock file")
    }

    /// A direct connection.
    pub(crate) fn raw(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("a database");
        connection.busy_timeout(Duration::from_secs(10)).expect("a timeout");
        connection
    }

    /// Waits until no process has the file open: the last one removes the log.
    pub(crate) fn until_closed(&self) -> Result<()> {
        let started = Instant::now();
        while self.folder().join("locks.db-wal").exists() {
            ensure!(started.elapsed() < Duration::from_secs(60), "it stays open");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// The program for the other processes.
pub(crate) fn worker() -> &'static str {
    env!("CARGO_BIN_EXE_sqlite-worker")
}

/// The output of a script that has a disk of its own in `$DISK`, of 256 KB, in a mount namespace of its own.
pub(crate) fn on_a_small_disk(script: &str) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new("unshare");
    if !getuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let output = command
        .args(["--mount", "sh", "-euc"])
        .arg(format!("mount -t tmpfs -o size=256k,nr_inodes=20 tmpfs \"$DISK\"\n{script}"))
        .envs([("DISK", folder.path()), ("WORKER", Path::new(worker()))])
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(said)
}

/// Takes a free lock, for an hour.
pub(crate) async fn take(backend: &SqliteBackend, key: &str) -> Acquired {
    let request = AcquireRequest::new(key, HOUR).expect("a request");
    let answer = backend.acquire(request).await.expect("an answer");
    answer.acquired().expect("a free lock")
}
