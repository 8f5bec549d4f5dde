//! Processes that are killed at any moment.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use syncguard_history::Random;
use syncguard_sqlite::LockBackend as _;
use syncguard_sqlite::contract::{AcquireRequest, AcquireResult, LookupRequest, ReleaseRequest};
use syncguard_test_effort::either;

use crate::sqlite::support::{File, HOUR, worker};

const KEYS: u64 = 5;

/// All processes of a tree are killed at once, repeatedly: no fence comes twice, no lock has two holders, and the
/// next processes go on at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_a_tree_of_processes_repeats_no_fence() -> Result<()> {
    let rounds = either(25, 100);
    let seed = Random::seed();
    println!("SYNCGUARD_SEED={seed}");
    let mut random = Random::new(seed);
    let file = File::new();
    let mut seen = Seen::default();
    let has_enough =
        |seen: &Seen| seen.fences.len() as u64 > 5 * rounds && seen.cut_short * 10 > rounds;
    // On a busy machine a process may be killed before it has done much: then there are more rounds.
    for round in 0.. {
        if round >= rounds && has_enough(&seen) {
            break;
        }
        ensure!(round < 40 * rounds, "too little happens, or nobody is killed with a lock in hand");
        let tree = Tree::start(&file, random.number())?;
        tokio::time::sleep(Duration::from_micros(random.number() % 120_000)).await;
        tree.kill()?;
        seen.read(file.folder()).with_context(|| format!("round {round}, seed {seed}"))?;
        give_back_everything(&file, &mut seen)
            .await
            .with_context(|| format!("round {round}, seed {seed}"))?;
    }
    let check: String = file.raw().query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
    ensure!(check == "ok", "{check}");
    println!("{} grants, {} of them at a kill", seen.fences.len(), seen.cut_short);
    Ok(())
}

struct Tree {
    processes: Vec<Child>,
    group: Pid,
}

impl Tree {
    fn start(file: &File, seed: u64) -> Result<Self> {
        const PROCESSES: u64 = 3;
        let mut processes: Vec<Child> = Vec::new();
        for number in 0..PROCESSES {
            let log = file.folder().join(format!("{seed}-{number}.log"));
            let group = processes.first().map_or(0, Child::id);
            let process = Command::new(worker())
                .arg("grind")
                .args([file.path(), log])
                .arg(seed.wrapping_add(number).to_string())
                .process_group(group.cast_signed())
                .stdin(Stdio::null())
                .spawn()?;
            processes.push(process);
        }
        let group = processes.first().context("no process")?.id();
        Ok(Self { processes, group: Pid::from_raw(group.cast_signed()).context("no process")? })
    }

    /// No process has ended before.
    fn kill(mut self) -> Result<()> {
        for process in &mut self.processes {
            let status = process.try_wait()?;
            ensure!(status.is_none(), "a worker has ended by itself: {status:?}");
        }
        kill_process_group(self.group, Signal::KILL)?;
        for process in &mut self.processes {
            process.wait()?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Seen {
    fences: HashSet<(String, u64)>,
    highest: BTreeMap<String, u64>,
    /// Grants whose holder was killed before the release.
    cut_short: u64,
}

impl Seen {
    /// Reads the logs of the workers of a round, and deletes them.
    fn read(&mut self, folder: &Path) -> Result<()> {
        // The times of the grant and of the start of the release, for each key and fence.
        let mut holds: BTreeMap<(String, u64), (Option<u128>, Option<u128>)> = BTreeMap::new();
        for log in std::fs::read_dir(folder)? {
            let path = log?.path();
            if path.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            for line in text.lines() {
                let [what, a, b, fence, at] = line.split(' ').collect::<Vec<_>>()[..] else {
                    anyhow::bail!("a line of a log: {line}");
                };
                let hold = holds.entry((format!("{a} {b}"), fence.parse()?)).or_default();
                let side = if what == "G" { &mut hold.0 } else { &mut hold.1 };
                ensure!(side.replace(at.parse()?).is_none(), "fence {fence} of {a} {b} twice");
            }
            std::fs::remove_file(path)?;
        }
        let mut before: Option<(&str, u64, Option<u128>)> = None;
        for ((key, fence), (granted, released)) in &holds {
            let granted = granted.context("a release without a grant")?;
            if let Some((same, earlier, end)) = before
                && same == key.as_str()
            {
                let end =
                    end.with_context(|| format!("{key}: {earlier} was held when {fence} was"))?;
                ensure!(end <= granted, "{key}: {earlier} and {fence} overlap");
            }
            before = Some((key, *fence, *released));
            self.cut_short += u64::from(released.is_none());
            self.note(key, *fence)?;
        }
        Ok(())
    }

    fn note(&mut self, key: &str, fence: u64) -> Result<()> {
        ensure!(self.fences.insert((key.to_owned(), fence)), "{key}: fence {fence} comes twice");
        let highest = self.highest.entry(key.to_owned()).or_default();
        *highest = fence.max(*highest);
        Ok(())
    }
}

/// Takes each key, after releasing the lock of a holder that was killed.
async fn give_back_everything(file: &File, seen: &mut Seen) -> Result<()> {
    let backend = file.open().await;
    for number in 0..KEYS {
        let key = format!("key {number}");
        if let Some(info) = backend.lookup(LookupRequest::by_key(&key)?).await? {
            let lock_id = info.expose().lock_id;
            ensure!(backend.release(ReleaseRequest::new(lock_id)).await?.is_released());
        }
        let request = AcquireRequest::new(&key, HOUR)?;
        let AcquireResult::Acquired(lock) = backend.acquire(request).await? else {
            anyhow::bail!("{key} is locked after its holder was killed and the lock released");
        };
        let highest = seen.highest.get(&key).copied().unwrap_or(0);
        ensure!(lock.fence.get() > highest, "{key}: {:?} after {highest}", lock.fence);
        seen.note(&key, lock.fence.get())?;
        ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    }
    Ok(())
}
