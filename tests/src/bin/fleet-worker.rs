//! A member of a fleet, until it is told to stop (SIGTERM) or killed.
//!
//! `fleet-worker LOCKS-URL REGISTERS-URL HISTORY-FILE NAME SEED KEYS TTL-IN-MS`

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard::CancellationToken;
use syncguard_history::Recording;
use syncguard_history::{Entry, Recorder};
use syncguard_tests::fleet::{Plan, connect, work};
use syncguard_tests::register::Registers;
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

fn main() -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [locks, registers, file, name, seed, keys, ttl] = arguments.as_slice() else {
        anyhow::bail!("fleet-worker LOCKS REGISTERS HISTORY-FILE NAME SEED KEYS TTL-IN-MS");
    };
    let ttl = Duration::from_millis(ttl.parse()?);
    let plan = Plan { keys: keys.parse()?, ttl, seed: seed.parse()? };
    // Before the file is there: whoever has a history also has an end in order, unless he is killed.
    let mut terminated = signal(SignalKind::terminate())?;
    let recorder = Recorder::to_file(name, Path::new(file))?;

    let connected = patiently(|| connect(locks)).await?;
    let registers = patiently(|| Registers::connect(registers, recorder.clone())).await?;
    let backend = Recording::new(connected.backend.clone(), recorder.clone());
    let stop = CancellationToken::new();
    let told = async {
        terminated.recv().await;
        stop.cancel();
    };
    tokio::join!(work(&backend, &registers, &plan, &stop), told);

    // What callers did not wait for goes on for a while.
    let borrowed = settled(|| connected.borrowed()).await;
    drop((connected, backend));
    registers.close().await;
    let tasks = settled(|| Handle::current().metrics().num_alive_tasks() as u64).await;
    recorder.note(Entry::Quiet { live: 0, tasks, borrowed });
    Ok(())
}

/// The way to a store may be broken just when a program starts.
async fn patiently<T, F: Future<Output = Result<T>>>(mut connect: impl FnMut() -> F) -> Result<T> {
    let started = Instant::now();
    loop {
        match connect().await {
            Ok(connected) => return Ok(connected),
            Err(error) if started.elapsed() > Duration::from_secs(20) => {
                return Err(error).context("no connection within 20 s");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// The count once it is zero, or what it is after a while.
async fn settled(count: impl Fn() -> u64) -> u64 {
    let started = Instant::now();
    while count() > 0 && started.elapsed() < Duration::from_millis(3500) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    count()
}
