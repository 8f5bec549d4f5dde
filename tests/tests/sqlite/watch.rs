//! Waiters get signals of changes by other handles and processes.
//!
//! Polls come after minutes here, so only a signal explains an earlier answer.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_sqlite::contract::{IsLockedRequest, KeyWatch, ReleaseRequest};
use syncguard_sqlite::{
    AcquisitionOptions, ErrorCode, LockBackend as _, LockConfig, LockGuard, SqliteBackend, acquire,
};
use syncguard_tests::calls::{self, unpolled};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::sqlite::support::{File, HOUR, take};

/// Much longer than a signal takes on any machine, much shorter than a poll.
const HEARD: Duration = Duration::from_secs(60);

fn waiter(backend: &SqliteBackend, key: &str) -> JoinHandle<LockGuard<SqliteBackend>> {
    let (backend, config) = (backend.clone(), unpolled(key));
    tokio::spawn(async move { acquire(&backend, config).await.expect("a lock") })
}

async fn watch(backend: &SqliteBackend, key: &str) -> KeyWatch {
    calls::watch(backend, key).await.expect("a watch")
}

/// Waits until this many callers are in the queues of the backend.
async fn until_in_line(backend: &SqliteBackend, keys: usize) {
    while backend.client_state().keys_in_use() < keys {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_release_is_heard_whoever_makes_it() -> Result<()> {
    let file = File::new();
    let (here, there) = (file.open().await, file.open().await);
    for round in 0..20 {
        let lock = take(&there, "k").await;
        let mut held = watch(&here, "k").await;
        ensure!(held.is_locked());
        // A waiter takes the lock at once, and a pure watch may find the key locked as before.
        let waiting = (round % 4 < 2).then(|| waiter(&here, "k"));
        if waiting.is_some() {
            until_in_line(&here, 1).await;
        }
        if round % 2 == 0 {
            ensure!(there.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        } else {
            // As a person would do it.
            ensure!(file.raw().execute("DELETE FROM locks WHERE key = 'k'", [])? == 1);
        }
        if let Some(waiting) = waiting {
            let guard = timeout(HEARD, waiting).await??;
            ensure!(guard.release().await?.is_released());
        }
        timeout(HEARD, held.changed()).await?;
    }
    Ok(())
}

/// Polls read the file, whatever the signals.
#[tokio::test]
async fn a_waiter_fails_when_the_file_is_deleted() -> Result<()> {
    let file = File::new();
    let (here, there) = (file.open().await, file.open().await);
    let _ = take(&there, "k").await;
    let options = AcquisitionOptions::new().with_timeout(HOUR);
    let config = LockConfig::new("k").with_acquisition(options);
    let waiting = tokio::spawn({
        let here = here.clone();
        async move { acquire(&here, config).await.map(drop) }
    });
    until_in_line(&here, 1).await;
    fs::remove_file(file.path())?;
    let answer = timeout(HEARD, waiting).await??;
    ensure!(answer.is_err_and(|error| error.code() == ErrorCode::Internal));
    Ok(())
}

/// The threads that watch and write the file end with the last clone, and remaining watches are told.
#[tokio::test]
async fn a_watch_ends_with_its_backend() -> Result<()> {
    let file = File::new();
    let backend = file.open().await;
    let _ = take(&backend, "k").await;
    let mut held = watch(&backend, "k").await;
    let clone = backend.clone();
    drop(backend);
    ensure!(clone.is_locked(IsLockedRequest::new("k")?).await?);
    drop(clone);
    timeout(HEARD, held.changed()).await?;
    ensure!(held.is_over());
    file.until_closed()
}
