//! Processes with a semaphore, more tasks than permits, and processes that are killed and stopped.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use syncguard::AcquisitionOptions;
use syncguard::contract::TIME_TOLERANCE;
use syncguard::recipes::Semaphore;
use syncguard_history::{Answer, Entry, Fault, History, Invariant, Limits, check};
use syncguard_tests::fleet::connect;

use crate::fleet::recipes::{BUSY, Stage, granted, on_each_store};
use syncguard_tests::fleet::stores::{Server, Store};

const TTL: Duration = Duration::from_secs(1);
const KEY: &str = "downloads";
const PERMITS: u32 = 3;
/// The largest difference between the store's clock and ours.
const CLOCKS: Duration = Duration::from_millis(20);

#[test]
fn never_more_than_there_are_permits_and_none_is_lost() {
    on_each_store(run);
}

fn arguments(permits: u32) -> [String; 3] {
    [KEY.to_owned(), TTL.as_millis().to_string(), permits.to_string()]
}

fn run(store: &Store, folder: &Path) -> Result<String> {
    let (mut stage, url) = (Stage::new(folder)?, store.direct());
    let mut workers = Vec::new();
    // As during a roll-out: two processes use a smaller number.
    for permits in [PERMITS, PERMITS - 1, PERMITS, PERMITS - 1] {
        workers.push(stage.start("semaphore", &url, &arguments(permits))?);
    }
    for round in 1..=4 {
        // All permits are in use.
        let before = stage.until("history", |history| Some(granted(history).len()))?;
        stage.until("grants", |history| (granted(history).len() > before + 20).then_some(()))?;
        let mut worker = workers.remove(0);
        if round % 2 == 0 {
            worker.process.pause()?;
            stage.recorder.note(Entry::Fault(Fault::Stopped));
            std::thread::sleep(TTL + TIME_TOLERANCE + Duration::from_millis(200));
            worker.process.resume()?;
            workers.push(worker);
        } else {
            stage.kill(worker)?;
            workers.push(stage.start("semaphore", &url, &arguments(PERMITS))?);
        }
    }
    stage.stop(workers)?;
    // A process that holds all permits, and gives nothing back.
    let holder = stage.start("hold", &url, &arguments(PERMITS))?;
    stage.until("a holder of all", |history| {
        let its = granted(history).into_iter().filter(|it| it.process == holder.name);
        (its.count() >= PERMITS as usize).then_some(())
    })?;
    let name = holder.name.clone();
    stage.kill(holder)?;
    let killed = Instant::now();
    let held_until = last_expiry(&stage.history()?, &name).context("a lock")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (took, had_all) = runtime.block_on(async {
        let backend = connect(&url).await?.backend;
        let patient = AcquisitionOptions::new().with_timeout(2 * BUSY);
        let semaphore = Semaphore::new(backend, KEY, PERMITS)?.with_acquisition(patient);
        let mut permits = Vec::new();
        for _ in 0..PERMITS {
            permits.push(semaphore.acquire().await?);
        }
        let (took, had_all) = (killed.elapsed(), SystemTime::now());
        for permit in permits {
            // On a busy machine there may be no answer in time.
            if let Ok(released) = permit.release().await {
                ensure!(released.is_released());
            }
        }
        Ok((took, had_all))
    })?;
    // A killed process keeps its locks until a tolerance after the expiry that it was told last.
    let early = (held_until + TIME_TOLERANCE).duration_since(had_all).unwrap_or_default();
    ensure!(early <= CLOCKS, "they were free {early:?} too early: not held");
    ensure!(took < TTL + TIME_TOLERANCE + BUSY, "all permits were there {took:?} after the kill");
    let live = runtime.block_on(async {
        let started = Instant::now();
        loop {
            let (live, _) = store.leftovers().await?;
            if live == 0 || started.elapsed() > BUSY {
                return anyhow::Ok(live);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })?;
    stage.recorder.note(Entry::Quiet { live, tasks: 0, borrowed: 0 });
    stage.check()?;
    let grants = granted(&stage.history()?);
    let slots: std::collections::BTreeSet<_> = grants.iter().map(|it| it.key.as_str()).collect();
    ensure!(slots.len() == PERMITS as usize, "{slots:?}");
    Ok(format!(
        "{} permits; all were there {took:.1?} after the kill of their holder",
        grants.len()
    ))
}

/// The latest expiry that a process was told, by the store's clock.
fn last_expiry(history: &History, process: &str) -> Option<SystemTime> {
    let its = history.operations.iter().filter(|it| it.process == process);
    let told = its.filter_map(|it| match it.answer() {
        Some(Answer::Acquired { expires_at, .. } | Answer::Extended { expires_at }) => {
            Some(*expires_at)
        }
        _ => None,
    });
    told.max().map(|millis| UNIX_EPOCH + Duration::from_millis(millis))
}

/// A planted flaw: the record shows a process that uses one slot too many.
#[test]
fn a_process_that_counts_wrong_is_found() -> Result<()> {
    let (store, folder) = (Store::new(Server::redis()?), tempfile::tempdir()?);
    let mut stage = Stage::new(folder.path())?;
    let workers = [PERMITS, PERMITS + 1]
        .map(|permits| stage.start("semaphore", &store.direct(), &arguments(permits)));
    let workers = workers.into_iter().collect::<Result<Vec<_>>>()?;
    // The files are read one after the other, so a release may be missing: that is over with the next reading.
    let in_a_row = Cell::new(0);
    stage.until("permit too many in use", |history| {
        in_a_row.set(if has_too_many_permits(history) { in_a_row.get() + 1 } else { 0 });
        (in_a_row.get() == 5).then_some(())
    })?;
    stage.stop(workers)?;
    ensure!(has_too_many_permits(&stage.history()?));
    Ok(())
}

fn has_too_many_permits(history: &History) -> bool {
    let mut history = history.clone();
    // The processes report the number that they use; this is the right number.
    for (_, note) in &mut history.notes {
        if let Entry::Semaphore { permits, .. } = note {
            *permits = u64::from(PERMITS);
        }
    }
    let violations = check(&history, &Limits::new());
    violations.iter().any(|violation| violation.invariant == Invariant::PermitsAreCounted)
}
