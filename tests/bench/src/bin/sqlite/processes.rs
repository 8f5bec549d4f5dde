//! Several processes on one file, each with one task.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_sqlite::SqliteBackend;

use crate::bare::Bare;
use crate::ways::{Figures, cycle};

pub(crate) const WAYS: [&str; 2] =
    ["syncguard-sqlite, synchronous=full", "(a) same SQL, bare rusqlite, synchronous=full"];

/// The work of a process: cycles, until the time is up; then it reports the time of each.
pub(crate) fn work(way: &str, file: &Path, number: &str, millis: u64) -> Result<()> {
    let key = format!("key {number}");
    let time = Duration::from_millis(millis);
    let mut latencies = Vec::new();
    if way == WAYS[0] {
        crate::runtime()?.block_on(async {
            let backend = SqliteBackend::open(file).await?;
            let started = Instant::now();
            while started.elapsed() < time {
                let start = Instant::now();
                cycle(&backend, &key).await?;
                latencies.push(start.elapsed());
            }
            anyhow::Ok(())
        })?;
    } else {
        let mut bare = Bare::open(file, "FULL")?;
        let started = Instant::now();
        while started.elapsed() < time {
            let start = Instant::now();
            bare.cycle(&key)?;
            latencies.push(start.elapsed());
        }
    }
    let micros: Vec<String> = latencies.iter().map(|it| it.as_micros().to_string()).collect();
    println!("{}", micros.join(" "));
    Ok(())
}

pub(crate) fn measure(
    way: &str,
    folder: &Path,
    processes: usize,
    time: Duration,
) -> Result<Figures> {
    let file = folder.join(if way == WAYS[0] { "processes.db" } else { "bare-processes.db" });
    // One process creates the file, so that no other waits for that.
    if way == WAYS[0] {
        crate::runtime()?.block_on(SqliteBackend::open(&file))?;
    } else {
        Bare::open(&file, "FULL")?;
    }
    rustix::fs::sync();
    let workers: Vec<_> = (0..processes)
        .map(|number| {
            Command::new(std::env::current_exe()?)
                .args(["worker", way])
                .arg(&file)
                .args([number.to_string(), time.as_millis().to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .context("a process")
        })
        .collect::<Result<_>>()?;
    let mut latencies = Vec::new();
    for worker in workers {
        let output = worker.wait_with_output()?;
        ensure!(output.status.success(), "a worker failed");
        for micros in String::from_utf8(output.stdout)?.split_whitespace() {
            latencies.push(Duration::from_micros(micros.parse()?));
        }
    }
    Ok(Figures::of(latencies, time))
}
