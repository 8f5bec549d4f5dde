//! Six processes with different clocks run the ticks of many schedules, while some are killed and some are stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_history::{Entry, Fault};
use syncguard_test_effort::either;
use syncguard_tests::fleet::stores::{Server, Store};

use crate::fleet::recipes::{Stage, Start, Worker, on_stores};

const TTL_MS: u64 = 1_500;

/// Milliseconds by which the clocks are off.
const OFF: [i64; 6] = [-3_000, -700, 0, 400, 2_000, 5_000];

#[test]
fn no_tick_starts_twice_and_each_one_with_attempts_is_done() {
    let stores = [
        ("redis", Server::redis as Start),
        ("postgres", Server::postgres),
        ("firestore", Server::firestore),
        ("sqlite", || Server::sqlite(Path::new(env!("CARGO_BIN_EXE_recipes-worker")))),
    ];
    on_stores(stores, run);
}

fn run(store: &Store, folder: &Path) -> Result<String> {
    let mut stage = Stage::new(folder)?;
    // In the full size more than 3 000 ticks, with one tick of each key in a second: 160 s.
    let (keys, rounds, least) = either((16, 3, 16 * 5), (24, 30, 3_000));
    let start = |stage: &mut Stage<'_>, number: usize| -> Result<Worker> {
        let off = OFF[number % OFF.len()].to_string();
        let rest = ["tick".to_owned(), TTL_MS.to_string(), keys.to_string(), off];
        stage.start("ticks", &store.direct(), &rest)
    };
    let mut workers = Vec::new();
    for number in 0..OFF.len() {
        workers.push(start(&mut stage, number)?);
    }
    stage.until("tick", |history| {
        history.notes.iter().any(|(_, it)| matches!(it, Entry::Tick { .. })).then_some(())
    })?;
    for round in 0..rounds {
        sleep(Duration::from_millis(1_500));
        // The clocks that are ahead win most ticks, because their processes ask at the store's time to the millisecond.
        let number = OFF.len() - 1 - round % 3;
        stage.kill(workers.remove(number))?;
        workers.insert(number, start(&mut stage, number)?);
        let stopped = workers.get_mut(round % 3).context("a worker")?;
        stopped.process.pause()?;
        stage.recorder.note(Entry::Fault(Fault::Stopped));
        sleep(Duration::from_millis(TTL_MS + 2_000));
        stopped.process.resume()?;
    }
    // Time to make up for what the killed processes left.
    sleep(Duration::from_secs(6));
    stage.stop(workers)?;
    // Rule 11: no attempt of a tick starts twice.
    stage.check()?;

    let mut starts: BTreeMap<(String, bool), BTreeMap<u64, u64>> = BTreeMap::new();
    for (_, note) in &stage.history()?.notes {
        if let Entry::Tick { key, tick, attempts, .. } = note {
            let ticks = starts.entry((key.clone(), *attempts > 1)).or_default();
            *ticks.entry(*tick).or_default() += 1;
        }
    }
    ensure!(starts.len() == keys, "{} of {keys} schedules ran", starts.len());
    let (mut ticks, mut never, mut again) = (0, 0, 0);
    for ((key, has_attempts), starts) in &starts {
        let (first, last) = (starts.keys().next(), starts.keys().next_back());
        let (first, last) = first.zip(last).context("a tick")?;
        // A new key begins with the next tick by the clock of each process, so its first ticks depend on the clocks.
        let missed: BTreeSet<u64> =
            (*first + 10..=*last).filter(|tick| !starts.contains_key(tick)).collect();
        // The counter passes a tick with attempts only once the tick is done, unless all attempts are used up.
        ensure!(!has_attempts || missed.is_empty(), "{key}: {missed:?} never ran");
        ticks += starts.len();
        never += missed.len();
        again += starts.values().filter(|attempts| **attempts > 1).count();
    }
    ensure!(ticks >= least, "only {ticks} ticks");
    Ok(format!(
        "{ticks} ticks of {keys} schedules; {again} had a second attempt; {never} of those without attempts never ran"
    ))
}
