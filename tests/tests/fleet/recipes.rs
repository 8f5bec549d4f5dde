//! Processes that use a recipe, and their records.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_history::{Answer, Call, Entry, Fault, History, Limits, Moment, Recorder, check};
use syncguard_test_services::process::ServerProcess;
use syncguard_tests::fleet::warm_up;

use syncguard_tests::fleet::stores::{Server, Store};

/// How much longer than usual a step may take on a busy machine. Only a hang takes longer.
pub(crate) const BUSY: Duration = Duration::from_secs(60);

/// The longest wait for an event in the record.
const LIMIT: Duration = Duration::from_secs(600);

/// Starts a store.
pub(crate) type Start = fn() -> Result<Server>;

/// Runs a test on each store, side by side.
pub(crate) fn on_each_store(test: fn(&Store, &Path) -> Result<String>) {
    on_stores(
        [
            ("redis", Server::redis as Start),
            ("postgres", Server::postgres),
            ("firestore", Server::firestore),
        ],
        test,
    );
}

/// Runs a test on these stores, side by side.
pub(crate) fn on_stores<const N: usize>(
    stores: [(&'static str, Start); N],
    test: fn(&Store, &Path) -> Result<String>,
) {
    thread::scope(|scope| {
        let runs = stores.map(|(name, start)| {
            scope.spawn(move || -> Result<()> {
                let (store, folder) = (Store::new(start()?), tempfile::tempdir()?);
                warm_up(&store.direct())?;
                match test(&store, folder.path()) {
                    Ok(report) => println!("{name}: {report}"),
                    Err(error) => bail!("{name}, {}: {error:#}", folder.keep().display()),
                }
                Ok(())
            })
        });
        let results = runs.map(|run| run.join().unwrap());
        let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    });
}

/// One of the processes.
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) process: ServerProcess,
}

/// The processes of a test, and their record.
pub(crate) struct Stage<'a> {
    folder: &'a Path,
    pub(crate) recorder: Recorder,
    started: u32,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(folder: &'a Path) -> Result<Self> {
        let recorder = Recorder::to_file("controller", &folder.join("controller.jsonl"))?;
        Ok(Self { folder, recorder, started: 0 })
    }

    /// Starts a process with a recipe.
    pub(crate) fn start(&mut self, recipe: &str, url: &str, rest: &[String]) -> Result<Worker> {
        let name = format!("worker-{}", self.started);
        self.started += 1;
        let mut command = Command::new(env!("CARGO_BIN_EXE_recipes-worker"));
        command.args([recipe, url]).arg(self.file(&name)).arg(&name).args(rest);
        let log = self.folder.join(format!("{name}.log"));
        Ok(Worker { process: ServerProcess::spawn("recipes-worker", command, &log)?, name })
    }

    pub(crate) fn kill(&self, worker: Worker) -> Result<()> {
        worker.process.kill()?;
        self.recorder.note(Entry::Fault(Fault::Killed));
        self.recorder.note(Entry::Ended { process: worker.name });
        Ok(())
    }

    /// Ends the processes, and checks that they ended.
    pub(crate) fn stop(&self, workers: Vec<Worker>) -> Result<()> {
        let expected = workers.len();
        let stops: Vec<_> = workers
            .into_iter()
            .map(|worker| thread::spawn(move || worker.process.stop(rustix::process::Signal::TERM)))
            .collect();
        for stop in stops {
            stop.join().ok().context("a thread that panicked")??;
        }
        let history = self.history()?;
        let ended =
            history.notes.iter().filter(|(_, it)| matches!(it, Entry::Quiet { .. })).count();
        ensure!(ended == expected, "{ended} of {expected} came to an end in order");
        Ok(())
    }

    pub(crate) fn history(&self) -> Result<History> {
        History::read(self.folder)
    }

    /// Checks the record against the invariants.
    pub(crate) fn check(&self) -> Result<()> {
        let limits = Limits {
            outage: BUSY,
            in_flight: Duration::from_secs(10),
            orphan: Duration::from_secs(1),
            ..Limits::new()
        };
        let violations = check(&self.history()?, &limits);
        let words: Vec<_> = violations.iter().take(5).map(ToString::to_string).collect();
        ensure!(words.is_empty(), "{} violations\n{}", violations.len(), words.join("\n"));
        Ok(())
    }

    /// Waits for an event in the record.
    pub(crate) fn until<T>(&self, what: &str, find: impl Fn(&History) -> Option<T>) -> Result<T> {
        let started = Instant::now();
        loop {
            let began = Instant::now();
            // Files are being written: a file without a whole line is no error.
            if let Ok(history) = self.history()
                && let Some(found) = find(&history)
            {
                return Ok(found);
            }
            ensure!(started.elapsed() < LIMIT, "no {what} within {LIMIT:?}");
            // A long record takes long to read, and the processes need the machine as well.
            thread::sleep(began.elapsed().max(Duration::from_millis(10)));
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.jsonl"))
    }
}

/// A granted lock: its holder, its time and its fence.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) process: String,
    pub(crate) key: String,
    pub(crate) at: Moment,
    pub(crate) fence: u64,
}

/// In the order of the grants.
pub(crate) fn granted(history: &History) -> Vec<Granted> {
    let mut granted: Vec<_> = history
        .operations
        .iter()
        .filter_map(|operation| match (&operation.call, &operation.answered) {
            (Call::Acquire { key, .. }, Some((at, Answer::Acquired { fence, .. }))) => {
                let (process, key) = (operation.process.clone(), key.clone());
                Some(Granted { process, key, at: *at, fence: *fence })
            }
            _ => None,
        })
        .collect();
    granted.sort_by_key(|it| it.at);
    granted
}
