//! A process that shares a lock file with others, for the tests of the SQLite backend.
//!
//! - `sqlite-worker keep-out FILE` keeps everybody else from writing until its input ends.
//! - `sqlite-worker try FILE` takes a lock and releases it, and says what came of it.
//! - `sqlite-worker hold FILE FILLER` takes locks, fills the disk by the filler, renews and releases the locks, takes others
//!   until that fails, deletes the filler and goes on.
//! - `sqlite-worker starve FILE` uses up its file descriptors, frees one after the other, and tries the file each time.
//! - `sqlite-worker between FILE` makes a time namespace for its children, in which a day more has gone by, and
//!   tries the file itself.
//! - `sqlite-worker fork FILE` opens the file, forks, and tries it in the child.

#![allow(clippy::print_stdout, reason = "its parent reads it")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rusqlite::{Connection, TransactionBehavior};
use syncguard::contract::{AcquireRequest, AcquireResult, ExtendRequest, ReleaseRequest};
use syncguard::sqlite::SqliteBackend;
use syncguard::{ErrorCode, Fence, LockBackend as _, LockError};
use tokio::runtime::{Builder, Runtime};

/// A constant of `linux/sched.h`, which the crate lacks.
const CLONE_NEWTIME: i32 = 0x80;
const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["keep-out", file] => keep_out(Path::new(file)),
        ["try", file] => {
            println!("{}", told(runtime()?.block_on(try_once(Path::new(file)))));
            Ok(())
        }
        ["hold", file, filler] => runtime()?.block_on(hold(Path::new(file), Path::new(filler))),
        ["starve", file] => runtime()?.block_on(starve(Path::new(file))),
        ["between", file] => {
            nix::sched::unshare(nix::sched::CloneFlags::from_bits_retain(CLONE_NEWTIME))?;
            std::fs::write("/proc/self/timens_offsets", "boottime 86400 0")?;
            println!("{}", told(runtime()?.block_on(try_once(Path::new(file)))));
            Ok(())
        }
        ["fork", file] => fork_and_try(Path::new(file)),
        _ => bail!("sqlite-worker keep-out|try|between|hold|starve|fork FILE …"),
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// The result, for the parent.
fn told(result: Result<Fence, LockError>) -> String {
    match result {
        Ok(fence) => format!("fence {}", fence.get()),
        Err(error) => format!("error {} {}", error.code(), error.message()),
    }
}

fn keep_out(file: &Path) -> Result<()> {
    let mut connection = Connection::open(file)?;
    // The other processes write all the time, and SQLite grants the write lock at random.
    connection.busy_timeout(Duration::from_secs(120))?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("INSERT INTO fences VALUES ('half done', 7)", ())?;
    println!("in");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    transaction.rollback()?;
    println!("out");
    Ok(())
}

async fn try_once(file: &Path) -> Result<Fence, LockError> {
    let backend = SqliteBackend::open(file).await?;
    take_and_release(&backend, "key").await
}

async fn take_and_release(backend: &SqliteBackend, key: &str) -> Result<Fence, LockError> {
    match backend.acquire(AcquireRequest::new(key, HOUR)?).await? {
        AcquireResult::Busy(_) | AcquireResult::Refused(_) => {
            Err(LockError::internal("somebody else has it"))
        }
        AcquireResult::Acquired(lock) => {
            let released = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
            if released.is_released() { Ok(lock.fence) } else { Err(LockError::internal("gone")) }
        }
    }
}

/// The disk is small. Locks that are held when it is full live on and can be released, and no lock is granted twice.
async fn hold(file: &Path, filler: &Path) -> Result<()> {
    let backend = SqliteBackend::open(file).await?;
    let mut held = Vec::new();
    for key in 0..20 {
        // Long, so that the file grows.
        let granted = backend.acquire(AcquireRequest::new(format!("{key:0>400}"), HOUR)?).await?;
        held.push(granted.acquired().context("a free lock")?.lock_id);
    }
    // The backend copies its log after the answer to an acquire, and before it begins the next operation.
    let last = held.last().context("a lock")?;
    ensure!(backend.extend(ExtendRequest::new(*last, HOUR)?).await?.is_extended());
    let mut space = File::create(filler)?;
    while space.write_all(&[1; 512]).is_ok() {}
    let mut times = 0;
    for round in 0..25 {
        for lock_id in &held {
            let extended = backend.extend(ExtendRequest::new(*lock_id, HOUR)?).await;
            ensure!(extended?.is_extended(), "round {round}");
            times += 1;
        }
        // Many at once are one transaction, whose pages are too many.
        let extends = held.iter().map(|lock_id| {
            let (backend, lock_id) = (backend.clone(), *lock_id);
            tokio::spawn(async move { backend.extend(ExtendRequest::new(lock_id, HOUR)?).await })
        });
        for extended in extends.collect::<Vec<_>>() {
            ensure!(extended.await??.is_extended(), "round {round}");
            times += 1;
        }
    }
    let another = SqliteBackend::open(file.with_file_name("new.db")).await.map(drop);
    println!("new: {}", told(another.map(|()| Fence::ZERO)));
    let kept = format!("{:0>400}", held.len() - 1);
    held.pop();
    for lock_id in held {
        ensure!(backend.release(ReleaseRequest::new(lock_id)).await?.is_released());
    }
    let key = |number| format!("more {number:0>400}");
    let mut more = 0;
    let error = loop {
        ensure!(more < 10_000, "the disk is not full");
        match backend.acquire(AcquireRequest::new(key(more), HOUR)?).await {
            Ok(granted) => ensure!(granted.is_acquired(), "a new key was locked"),
            Err(error) => break error,
        }
        more += 1;
    };
    ensure!(error.code() == ErrorCode::ServiceUnavailable, "{error}");
    ensure!(error.message().contains("full"), "{error}");
    for old in (0..more).map(key).chain([kept]) {
        let again = backend.acquire(AcquireRequest::new(old, HOUR)?).await?;
        ensure!(again.is_busy(), "a lock was granted twice on a full disk");
    }
    drop(space);
    std::fs::remove_file(filler)?;
    // The failed acquire has left nothing, or is cleaned up soon.
    let mut tries = 0;
    let is_back = async || {
        let answer = backend.acquire(AcquireRequest::new(key(more), HOUR)?).await;
        anyhow::Ok(answer.is_ok_and(|answer| answer.is_acquired()))
    };
    while !is_back().await? {
        ensure!(tries < 500, "no service on a disk that has room again");
        tries += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("extended {times} times, and back");
    Ok(())
}

/// Prints what came of each try, until one succeeds.
async fn starve(file: &Path) -> Result<()> {
    let mut kept = Vec::new();
    while let Ok(more) = File::open("/dev/null") {
        kept.push(more);
    }
    loop {
        let told = told(try_once(file).await);
        println!("{told}");
        if told.starts_with("fence") {
            return Ok(());
        }
        kept.pop().context("a descriptor")?;
    }
}

fn fork_and_try(file: &Path) -> Result<()> {
    let runtime = runtime()?;
    let backend = runtime.block_on(SqliteBackend::open(file))?;
    let before = told(runtime.block_on(take_and_release(&backend, "key")));
    println!("before: {before}");
    std::io::stdout().flush()?;
    let blocking = syncguard::blocking::connect("memory:")?;
    let guard = blocking.acquire("blocking")?;
    match fork::fork().context("no fork")? {
        fork::Fork::Child => {
            // The child shares the descriptors of the runtime with its parent, so it needs a new runtime.
            let runtime = self::runtime()?;
            println!("child: {}", told(runtime.block_on(take_and_release(&backend, "key"))));
            println!("child opens: {}", told(runtime.block_on(try_once(file))));
            // The drops of what is the parent's do nothing, and wait for nobody.
            drop(guard);
            println!("child blocks: {}", told(blocking.lock("other", |held| held.fence())));
            drop(blocking);
            std::io::stdout().flush()?;
            rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            )?;
        }
        fork::Fork::Parent(child) => {
            let child = rustix::process::Pid::from_raw(child).context("no child")?;
            rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())?;
            println!("parent: {}", told(runtime.block_on(take_and_release(&backend, "key"))));
            println!("parent blocks: {}", told(blocking.lock("other", |held| held.fence())));
            ensure!(!guard.is_lost() && guard.release()?.is_released());
        }
    }
    Ok(())
}
