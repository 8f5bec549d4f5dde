//! Further measurements: crashed holders, memory, many keys, requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::clock;
use crate::fairness;
use crate::job::{Follow, Hold, Job, Requests, Store};
use crate::options::Options;
use crate::process::Process;
use crate::report::Report;
use crate::requests::Served;
use crate::stores::Measured;
use crate::weight::Weight;

/// All of them.
pub(crate) async fn all(report: &mut Report, options: &Options, on: Measured<'_>) -> Result<()> {
    fairness::all(report, options, on).await?;
    if options.wants_row("crashed holder") {
        crashed_holder(report, on.store)?;
    }
    if options.wants_row("keys") && !matches!(on.store, Store::Firestore { .. }) {
        many_keys(report, on).await?;
    }
    one_process(report, options, on.store)
}

/// Measurements of a single process.
pub(crate) fn one_process(report: &mut Report, options: &Options, store: &Store) -> Result<()> {
    if options.wants_row("requests") {
        for (name, work) in [("requests of 50 ms", 50), ("requests of 100 ms", 100)] {
            requests(report, store, name, Duration::from_millis(work))?;
        }
    }
    if options.wants_row("memory") {
        weight(report, store)?;
    }
    Ok(())
}

/// The time from the expiry of a crashed holder's lock to the grant in another process.
pub(crate) fn crashed_holder(report: &mut Report, store: &Store) -> Result<()> {
    const ROUNDS: usize = 10;
    const TOLERANCE_MS: f64 = 1000.0;
    let prefix = fresh_prefix();
    let ttl = Duration::from_secs(1);
    // Expiries apart from each other, so that each is a round of its own.
    let pause = Duration::from_millis(37);
    let hold = Hold { prefix: prefix.clone(), keys: ROUNDS, ttl, pause };
    let mut holder = started(store, &Job::Hold(hold))?;
    let mut follower = started(store, &Job::Follow(Follow { prefix, keys: ROUNDS }))?;
    holder.begin_at(clock::now())?;
    let expiries: Vec<f64> = holder.answer()?;
    follower.begin_at(clock::now())?;
    std::thread::sleep(Duration::from_millis(100));
    holder.kill()?;
    let granted: Vec<f64> = follower.answer()?;
    let mut late: Vec<f64> =
        granted.iter().zip(expiries).map(|(at, expiry)| at - expiry - TOLERANCE_MS).collect();
    late.sort_by(f64::total_cmp);
    let (first, p50, last) = (late[0], late[ROUNDS / 2], late[ROUNDS - 1]);
    report.note(
        "crashed holder",
        &format!("p50 {p50:.1} ms after its time ({first:.1} to {last:.1})"),
    );
    report.at_most("crashed holder", "p50 after its time, in ms", p50, Some(50.0));
    Ok(())
}

/// Connections of a process in which many wait, each for a key of its own, and what it sends.
async fn many_keys(report: &mut Report, on: Measured<'_>) -> Result<()> {
    const KEYS: usize = 1000;
    let prefix = fresh_prefix();
    let (ttl, pause) = (Duration::from_secs(60), Duration::ZERO);
    let hold = Hold { prefix: prefix.clone(), keys: KEYS, ttl, pause };
    let mut holder = started(on.store, &Job::Hold(hold))?;
    holder.begin_at(clock::now())?;
    let _: Vec<f64> = holder.answer()?;
    let before = on.counter.connections().await?;
    let mut follower = started(on.store, &Job::Follow(Follow { prefix, keys: KEYS }))?;
    follower.begin_at(clock::now())?;
    // Until all waiters have been refused and watch their keys.
    clock::exactly(Duration::from_millis(1500)).await?;
    let (connections, commands) = (on.counter.connections().await?, on.counter.read().await?);
    clock::exactly(Duration::from_secs(2)).await?;
    let commands = (on.counter.read().await? - commands) as f64 / 2.0 / KEYS as f64;
    let connections = connections - before;
    report.note(
        "1000 waiters, 1000 keys",
        &format!("{connections} connections, {commands:.2} commands/s for each waiter"),
    );
    Ok(())
}

/// 200 requests on 5 keys.
fn requests(report: &mut Report, store: &Store, name: &str, work: Duration) -> Result<()> {
    let mut child = started(store, &Job::Requests(Requests { work }))?;
    child.begin_at(clock::now())?;
    let Served { mutex, ours, failures } = child.answer()?;
    let ratio = ours / mutex;
    report.note(
        name,
        &format!(
            "{ours:.0} ms, a mutex in the process {mutex:.0} ms: {ratio:.2}; {failures} failures"
        ),
    );
    // The calls to the emulator take a large part of each turn.
    let most = Some(1.15).filter(|_| !matches!(store, Store::Firestore { .. }));
    report.at_most(name, "time over that of a mutex", ratio, most);
    report.at_most(name, "failures", failures as f64, Some(0.0));
    Ok(())
}

/// Bytes for each of 1 000 waiters on one key.
fn weight(report: &mut Report, store: &Store) -> Result<()> {
    let mut child = started(store, &Job::Weigh)?;
    child.begin_at(clock::now())?;
    let Weight { future, heap, left } = child.answer()?;
    let all = future + heap;
    report.note(
        "memory of a waiter",
        &format!("{all:.0} bytes: future {future:.0}, beside it {heap:.0}; left behind {left:.1}"),
    );
    report.at_most("memory of a waiter", "bytes", all, Some(1024.0));
    Ok(())
}

fn started(store: &Store, job: &Job) -> Result<Process> {
    let mut process = Process::start(store, job)?;
    process.wait_until_ready()?;
    Ok(process)
}

fn fresh_prefix() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("situation {}", NUMBER.fetch_add(1, Ordering::Relaxed))
}
