//! The module `blocking` on real stores.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rayon::ThreadPoolBuilder;
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use syncguard::blocking;
use syncguard::{AutoExtend, ErrorCode, LockConfig};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;

/// A program with a plain `main`.
const PROGRAM: &str = env!("CARGO_BIN_EXE_example-blocking");

/// However `main` ends, the next process gets the lock at once.
#[test]
fn a_program_leaves_no_lock_behind() -> Result<()> {
    let (redis, postgres) = (RedisServer::start()?, PostgresServer::start()?);
    let folder = tempfile::tempdir()?;
    let urls = [
        format!("sqlite:{}", folder.path().join("locks.db").display()),
        format!("{}?operation_timeout_ms=20000", redis.url()),
        format!("{}?setup_schema=true&statement_timeout_ms=20000", postgres.url()),
    ];
    for url in &urls {
        for (ends, status) in [("well", Some(0)), ("fail", Some(1)), ("panic", Some(101))] {
            let output = Command::new(PROGRAM).args([url, ends]).output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == status, "{ends}: {said}");
            let locks = blocking::connect(url)?;
            let free = locks.try_acquire("report")?;
            ensure!(free.is_acquired(), "{ends} left the lock behind");
        }
    }
    Ok(())
}

#[test]
fn the_threads_of_rayon_share_the_connections_and_take_turns() -> Result<()> {
    let server = RedisServer::start()?;
    let locks = blocking::connect(&format!("{}?operation_timeout_ms=20000", server.url()))?;
    let (inside, worked) = (AtomicU32::new(0), AtomicU32::new(0));
    let alone = |_| {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
        thread::yield_now();
        inside.fetch_sub(1, Ordering::SeqCst);
        worked.fetch_add(1, Ordering::SeqCst);
    };
    let turn = |number| {
        let patient = LockConfig::new("key").with_wait_up_to(Duration::from_secs(60));
        // Calls within the work are allowed, for another key.
        locks.lock(format!("{number}"), |_| locks.lock(patient, alone))?
    };
    let pool = ThreadPoolBuilder::new().num_threads(8).build()?;
    pool.install(|| (0..200).into_par_iter().try_for_each(turn))?;
    ensure!(worked.into_inner() == 200);
    Ok(())
}

/// A server that is away: calls fail, drops are bounded, and both work again afterwards.
#[test]
fn a_server_that_is_away_holds_nobody_up() -> Result<()> {
    let mut server = RedisServer::start()?;
    let locks = blocking::connect(&format!("{}?dispose_timeout_ms=300", server.url()))?;
    let kept = || LockConfig::new("kept").with_auto_extend(AutoExtend::new());
    let (guard, dropped) = (locks.acquire(kept())?, locks.acquire("dropped")?);
    server.pause()?;
    let started = Instant::now();
    let error = locks.acquire("other").err().context("no server, and a lock")?;
    ensure!(error.is_retryable() && error.code() != ErrorCode::AcquisitionTimeout, "{error}");
    drop(dropped);
    ensure!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    server.resume()?;
    ensure!(!guard.is_lost());
    guard.release()?;
    // The release of the dropped guard is tried again, and the server forgets nothing.
    let again = LockConfig::new("dropped").with_wait_up_to(Duration::from_secs(20));
    locks.acquire(again)?.release()?;

    server.stop()?;
    let started = Instant::now();
    ensure!(locks.acquire("other").is_err());
    drop(locks);
    ensure!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    Ok(())
}
