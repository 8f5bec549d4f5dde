//! Operations whose caller has given up, and runtime threads that are never blocked.

use std::time::Duration;

use anyhow::{Result, ensure};
use rusqlite::Connection;
use syncguard_sqlite::contract::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_sqlite::{
    CancellationToken, ErrorCode, Gate, LockBackend as _, SqliteBackend, SqliteOptions, Synchronous,
};
use syncguard_tests::polling::{poll_times, poll_times_and_linger};
use tokio::runtime::Builder;
use tokio::time::Instant;

use crate::sqlite::support::{File, HOUR, MINUTE, take};

fn begin(connection: &Connection) -> Result<()> {
    Ok(connection.execute_batch("BEGIN IMMEDIATE")?)
}

fn end(connection: &Connection) -> Result<()> {
    Ok(connection.execute_batch("COMMIT")?)
}

fn locks(connection: &Connection) -> Result<i64> {
    Ok(connection.query_row("SELECT count(*) FROM locks", (), |row| row.get(0))?)
}

fn counters(connection: &Connection) -> Result<i64> {
    Ok(connection.query_row("SELECT count(*) FROM fences", (), |row| row.get(0))?)
}

async fn cleaned_up(backend: &SqliteBackend) -> Result<()> {
    let started = Instant::now();
    while backend.client_state().clean_up().waiting() > 0 {
        ensure!(started.elapsed() < Duration::from_secs(10), "the clean-up does not end");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
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

/// The time limit of an operation ends before it can write: it is never carried out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_late_is_never_carried_out() -> Result<()> {
    let file = File::new();
    // The limit is for the other writer, and not for the disk.
    let options = SqliteOptions::new().with_synchronous(Synchronous::Normal);
    let patient = file.open_with(options.clone()).await;
    let held = take(&patient, "held").await;
    let backend = file.open_with(options.with_operation_timeout(Duration::from_secs(2))).await;
    let raw = file.raw();
    begin(&raw)?;
    let (acquired, released, extended) = tokio::join!(
        backend.acquire(AcquireRequest::new("key", HOUR)?),
        backend.release(ReleaseRequest::new(held.lock_id)),
        backend.extend(ExtendRequest::new(held.lock_id, 5 * HOUR)?),
    );
    ensure!(acquired.is_err() && released.is_err() && extended.is_err());
    end(&raw)?;
    // The thread has handled all of them when it answers this.
    ensure!(!backend.is_locked(IsLockedRequest::new("key")?).await?, "a late acquire");
    let found = backend.lookup(LookupRequest::by_lock_id(held.lock_id)).await?;
    let found = found.expect("a late release");
    ensure!(found.expires_at == held.expires_at, "a late extend");
    ensure!(counters(&raw)? == 1, "a late acquire has used a fence up");
    Ok(())
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
    let started = Instant::now();
    while locks(&raw)? > 0 {
        ensure!(started.elapsed() < Duration::from_secs(5), "the release was not done");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    cleaned_up(&backend).await?;
    ensure!(counters(&raw)? == 1, "the acquire was done");
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
    let started = Instant::now();
    let (answer, ()) = tokio::join!(backend.acquire(request), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        token.cancel();
    });
    ensure!(answer.expect_err("cancelled").code() == ErrorCode::Aborted);
    ensure!(started.elapsed() < Duration::from_secs(1));
    end(&raw)?;
    cleaned_up(&backend).await?;
    ensure!(!backend.is_locked(IsLockedRequest::new("key")?).await?);
    ensure!(counters(&raw)? == 0);
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
        for (key, what) in
            [("held", "the release was lost"), ("key", "the acquire has left a lock")]
        {
            let started = Instant::now();
            while backend.is_locked(IsLockedRequest::new(key)?).await? {
                ensure!(started.elapsed() < Duration::from_secs(10), what);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        Ok(())
    })
}

/// Futures are dropped after each possible number of polls, at once and when the answer may be on the network:
/// nothing is left of an acquire, and a release or an extend is done or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_that_is_dropped_at_any_poll_leaves_nothing() -> Result<()> {
    let file = File::new();
    let backend = file.open().await;
    for linger in [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(5)] {
        let mut all_ended = false;
        for polls in 0..64 {
            all_ended = true;
            for operation in 0..5 {
                let id = take(&backend, "held").await.lock_id;
                let (key, release) = (IsLockedRequest::new("held")?, ReleaseRequest::new(id));
                let acquire = AcquireRequest::new("key", MINUTE)?;
                let extend = ExtendRequest::new(id, MINUTE)?;
                let lookup = LookupRequest::by_lock_id(id);
                let ended = match operation {
                    0 => is_done(backend.acquire(acquire), polls, linger).await,
                    1 => is_done(backend.release(release), polls, linger).await,
                    2 => is_done(backend.extend(extend), polls, linger).await,
                    3 => is_done(backend.is_locked(key), polls, linger).await,
                    _ => is_done(backend.lookup(lookup), polls, linger).await,
                };
                ensure!(polls > 0 || !ended);
                all_ended &= ended;
                let _ = backend.release(ReleaseRequest::new(id)).await?;
                cleaned_up(&backend).await?;
                if operation == 0 {
                    let started = Instant::now();
                    while let Some(info) = backend.lookup(LookupRequest::by_key("key")?).await? {
                        if ended {
                            let id = info.expose().lock_id;
                            let _ = backend.release(ReleaseRequest::new(id)).await?;
                        }
                        ensure!(started.elapsed() < Duration::from_secs(5), "it is still locked");
                        tokio::time::sleep(Duration::from_micros(200)).await;
                    }
                }
            }
            if all_ended {
                break;
            }
        }
        ensure!(all_ended, "they never end");
    }
    ensure!(locks(&file.raw())? == 0);
    Ok(())
}

async fn is_done(future: impl Future, polls: usize, linger: Duration) -> bool {
    poll_times_and_linger(future, polls, linger).await.is_some()
}

/// Timeouts of any size.
#[tokio::test]
async fn timeouts_may_have_any_size() -> Result<()> {
    let years = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    let file = File::new();
    let gate = Gate::default();
    // The last to close a file keeps others out for a moment.
    let _open = file.open().await;
    for timeout in [years, Duration::from_secs(1 << 31), Duration::from_secs(2)] {
        let options = SqliteOptions::new().with_operation_timeout(timeout).with_gate(gate.clone());
        let options = options.with_synchronous(Synchronous::Normal);
        let backend = file.open_with(options.with_dispose_timeout(timeout)).await;
        let lock = take(&backend, "key").await;
        ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    }
    // The shortest: an answer, or the timeout's error.
    let options = SqliteOptions::new().with_operation_timeout(Duration::from_millis(1));
    match SqliteBackend::open_with(file.path(), options).await {
        Err(error) => ensure!(error.is_retryable(), "{error}"),
        Ok(backend) => {
            for _ in 0..20 {
                match backend.is_locked(IsLockedRequest::new("key")?).await {
                    Ok(is_locked) => ensure!(!is_locked),
                    Err(error) => ensure!(error.code() == ErrorCode::NetworkTimeout, "{error}"),
                }
            }
        }
    }
    Ok(())
}
