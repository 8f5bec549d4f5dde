//! Waiters get signals of changes by other handles and processes.
//!
//! Polls come after minutes here, so only a signal explains an earlier answer.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_sqlite::contract::{IsLockedRequest, KeyWatch, ReleaseRequest};
use syncguard_sqlite::{LockBackend as _, LockGuard, SqliteBackend, acquire};
use syncguard_tests::calls::{self, unpolled};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::sqlite::support::{File, take};

/// Much longer than a signal takes on any machine, much shorter than a poll.
const HEARD: Duration = Duration::from_secs(60);

fn waiter(backend: &SqliteBackend, key: &str) -> JoinHandle<LockGuard<SqliteBackend>> {
    let (backend, config) = (backend.clone(), unpolled(key));
    tokio::spawn(async move { acquire(&backend, config).await.expect("a lock") })
}

async fn watch(backend: &SqliteBackend, key: &str) -> KeyWatch {
    calls::watch(backend, key).await.expect("a watch")
}

#[tokio::test]
async fn a_release_is_heard_whoever_makes_it() -> Result<()> {
    let file = File::new();
    let (here, there) = (file.open().await, file.open().await);
    for round in 0..20 {
        let lock = take(&there, "k").await;
        let mut held = watch(&here, "k").await;
        ensure!(held.is_locked);
        // A waiter takes the lock at once, and a pure watch may find the key locked as before.
        let waiting = (round % 4 < 2).then(|| waiter(&here, "k"));
        if waiting.is_some() {
            calls::until("a waiter", async || here.client_state().keys_in_use() > 0).await;
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
