//! Operations whose caller has given up, and runtime threads that are never blocked.

use std::time::Duration;

use anyhow::{Result, ensure};
use rusqlite::Connection;
use syncguard_sqlite::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, ReleaseRequest,
};
use syncguard_sqlite::{
    CancellationToken, ErrorCode, LockBackend as _, SqliteBackend, SqliteOptions, Synchronous,
};
use syncguard_tests::calls::until;
use syncguard_tests::polling::{poll_times, poll_times_and_linger};
use tokio::runtime::Builder;

use crate::sqlite::support::{File, HOUR, MINUTE, take};

fn begin(connection: &Connection) -> Result<()> {
    Ok(connection.execute_batch("BEGIN IMMEDIATE")?)
}

fn end(connection: &Connection) -> Result<()> {
    Ok(connection.execute_batch("COMMIT")?)
}

/// The number of rows of a table.
fn rows(connection: &Connection, table: &str) -> Result<i64> {
    Ok(connection.query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get(0))?)
}

async fn cleaned_up(backend: &SqliteBackend) {
    until("the clean-up", async || backend.client_state().pending_releases() == 0).await;
}

/// A runtime with one thread, and a file that another process keeps exclusively: other tasks go on.
#[test]
fn no_asynchronous_thread_is_ever_blocked() -> Result<()> {
    let file = File::new();
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let backend = file.open().await;
        let held = take(&backend, "held").await;
        let raw = file.raw();
        begin(&raw)?;
        let operations = {
            let backend = backend.clone();
            tokio::spawn(async move {
                let acquire = backend.acquire(AcquireRequest::new("key", HOUR)?);
                let extend = backend.extend(ExtendRequest::new(held.lock_id, HOUR)?);
                let opened = async { Ok(file.open().await) };
                tokio::try_join!(acquire, extend, opened).map(drop)
            })
        };
        // If the thread were blocked, no task would count, and the other process would never be released.
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        ensure!(!operations.is_finished());
        end(&raw)?;
        operations.await??;
        Ok(())
    })
}

/// A caller goes away before its acquire has begun: it never begins. A release is carried out all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_takes_its_acquire_along_and_not_its_release() -> Result<()> {
    let file = File::new();
    let backend = file.open().await;
    let held = take(&backend, "held").await;
    let raw = file.raw();
    begin(&raw)?;
    ensure!(poll_times(backend.acquire(AcquireRequest::new("key", HOUR)?), 1).await.is_none());
    ensure!(poll_times(backend.release(ReleaseRequest::new(held.lock_id)), 1).await.is_none());
    end(&raw)?;
    until("the release", async || rows(&raw, "locks").is_ok_and(|count| count == 0)).await;
    cleaned_up(&backend).await;
    ensure!(rows(&raw, "fences")? == 1, "the acquire was done");
    Ok(())
}

/// The token fires while another process writes: the call answers at once, and has no later effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_ends_the_wait_for_another_writer() -> Result<()> {
    let file = File::new();
    let backend = file.open().await;
    let raw = file.raw();
    begin(&raw)?;
    let token = CancellationToken::new();
    let request = AcquireRequest::new("key", HOUR)?.with_cancellation(token.clone());
    let (answer, ()) = tokio::join!(backend.acquire(request), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        token.cancel();
    });
    ensure!(answer.expect_err("cancelled").code() == ErrorCode::Aborted);
    end(&raw)?;
    cleaned_up(&backend).await;
    ensure!(!backend.is_locked(IsLockedRequest::new("key")?).await?);
    ensure!(rows(&raw, "fences")? == 0);
    Ok(())
}

/// The end of a runtime loses no granted lock and no pending release.
#[test]
fn a_runtime_that_ends_leaves_no_lock_behind() -> Result<()> {
    let file = File::new();
    let later = Builder::new_current_thread().enable_all().build()?;
    let options = SqliteOptions::new().with_synchronous(Synchronous::Normal);
    let backend = later.block_on(file.open_with(options));
    let held = later.block_on(take(&backend, "held"));
    let raw = file.raw();
    begin(&raw)?;
    let first = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    for operation in ["acquire", "release"] {
        let backend = backend.clone();
        first.spawn(async move {
            if operation == "acquire" {
                let _ = backend.acquire(AcquireRequest::new("key", HOUR)?).await?;
            } else {
                let _ = backend.release(ReleaseRequest::new(held.lock_id)).await?;
            }
            Ok::<_, syncguard_sqlite::LockError>(())
        });
    }
    first.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    drop(first);
    end(&raw)?;
    later.block_on(async {
        // Whatever the outcome of the acquire, its clean-up needs a runtime.
        for key in ["held", "key"] {
            let request = IsLockedRequest::new(key)?;
            until(key, async || !backend.is_locked(request.clone()).await.expect("an answer"))
                .await;
        }
        Ok(())
    })
}

/// The future of an acquire is dropped after each possible number of polls, and after the answer may have arrived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_is_dropped_with_its_answer_leaves_nothing() -> Result<()> {
    let file = File::new();
    let backend = file.open().await;
    for linger in [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(5)] {
        for polls in 0..64 {
            let acquire = backend.acquire(AcquireRequest::new("key", MINUTE)?);
            let answer = poll_times_and_linger(acquire, polls, linger).await;
            let has_answer = answer.is_some();
            if let Some(lock) = answer.transpose()?.and_then(AcquireResult::acquired) {
                let _ = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
            }
            cleaned_up(&backend).await;
            ensure!(rows(&file.raw(), "locks")? == 0, "{polls} polls, {linger:?}");
            if has_answer {
                break;
            }
            ensure!(polls < 63, "it never ends");
        }
    }
    Ok(())
}
