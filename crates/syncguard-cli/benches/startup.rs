//! Compares the time of `syncguard run KEY -- true` on a file with that of `flock FILE true`, in
//! turns.
//!
//! Fails above three times the time of `flock` plus 15 ms.

#![allow(clippy::print_stdout, reason = "a benchmark says what it has measured")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

const ROUNDS: usize = 60;

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = format!("sqlite://{}", folder.path().join("locks.db").display());
    let file = folder.path().join("flock");
    let mut flock = Command::new("flock");
    flock.arg(&file).arg("true");
    let mut syncguard = Command::new(env!("CARGO_BIN_EXE_syncguard"));
    syncguard.args(["run", "startup", "--", "true"]).env("SYNCGUARD_STORE", store);

    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(timed(&mut flock).context("flock is missing: apt-get install util-linux")?);
        ours.push(timed(&mut syncguard)?);
    }
    let (theirs, ours) = (median(theirs), median(ours));
    println!("flock {theirs:?}, syncguard {ours:?}");
    let allowed = 3 * theirs + Duration::from_millis(15);
    ensure!(ours <= allowed, "syncguard takes {ours:?}, more than {allowed:?}");
    Ok(())
}

fn timed(command: &mut Command) -> Result<Duration> {
    command.stdin(Stdio::null());
    let began = Instant::now();
    let status = command.status()?;
    let took = began.elapsed();
    ensure!(status.success(), "{status}");
    Ok(took)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
