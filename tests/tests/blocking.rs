//! The module `blocking` on real stores.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use rayon::ThreadPoolBuilder;
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use syncguard::LockConfig;
use syncguard::blocking;
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
