//! Real processes on real stores.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use syncguard::{LockBackend as _, LookupRequest, TIME_TOLERANCE};
use syncguard_history::Random;
use syncguard_history::Recording;
use syncguard_history::{Entry, Fault, Floors, History, Limits, Recorder, check};
use syncguard_test_services::process::ServerProcess;
use syncguard_tests::fleet::{connect, key, longest_ttl};
use syncguard_tests::register::Registers;

use crate::chaos::Chaos;
use crate::stores::{Server, Store};

const MEMBERS: usize = 8;
const KEYS: u64 = 5;
const TTL: Duration = Duration::from_millis(600);

/// It goes on until the floors are reached, but not for ever.
const AT_LEAST: Duration = Duration::from_secs(9);
const AT_MOST: Duration = Duration::from_secs(120);

/// A busy machine starts programs and connections late: the specification's two seconds are for a
/// machine that has nothing else to do.
const OUTAGE: Duration = Duration::from_secs(10);

/// The longest time limit of [`connect`], after which the stores refuse what they get, and a second for
/// a busy machine. What is held back, or sent to a stopped server, arrives later than that.
const IN_FLIGHT: Duration = Duration::from_secs(3);

fn floors(store: &Store) -> Floors {
    let mut faults = vec![
        (Fault::Killed, 6),
        (Fault::Stopped, 3),
        (Fault::Cut, 3),
        (Fault::Delayed, 2),
        (Fault::Severed, 2),
        (Fault::Frozen, 1),
        (Fault::Late, 2),
        (Fault::ServerStopped, 1),
    ];
    if store.proxy.is_none() {
        let without_a_way = [Fault::Killed, Fault::Stopped, Fault::ServerStopped];
        faults.retain(|(fault, _)| without_a_way.contains(fault));
    }
    Floors { answered: 400, granted: 80, written: 60, rejected: 2, faults }
}

#[test]
fn fleets_of_processes_break_no_invariant() {
    let seed = Random::seed();
    println!("SYNCGUARD_SEED={seed}");
    let stores = [
        ("redis", Server::redis as fn() -> Result<Server>),
        ("redis-cluster", Server::cluster),
        ("postgres", Server::postgres),
        ("firestore", Server::firestore),
        ("sqlite", Server::sqlite),
    ];
    thread::scope(|scope| {
        let runs = stores.map(|(name, start)| {
            scope.spawn(move || {
                run(&Store::new(start()?)?, seed).with_context(|| format!("{name}, seed {seed}"))
            })
        });
        let results = runs.map(|run| run.join().unwrap());
        let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    });
}

fn run(store: &Store, seed: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let started = Instant::now();
    let result = recorded(store, seed, folder.path());
    match &result {
        Ok(report) => println!("{}, {:.1?}: {report}", store.name(), started.elapsed()),
        Err(_) => println!("{}: the history is in {}", store.name(), folder.keep().display()),
    }
    result.map(drop)
}

/// A run; what it has done, in words.
fn recorded(store: &Store, seed: u64, folder: &Path) -> Result<String> {
    let recorder = Recorder::to_file("controller", &folder.join("controller.jsonl"))?;
    let mut random = Random::new(seed);
    let mut chaos = Chaos::new(store, recorder.clone(), Random::new(random.number()));
    let mut fleet = Fleet::new(store, folder, &recorder, random)?;
    let started = Instant::now();
    let mut looked = started;
    loop {
        thread::sleep(Duration::from_millis(10));
        chaos.tick()?;
        fleet.tick()?;
        if started.elapsed() < AT_LEAST || looked.elapsed() < Duration::from_secs(1) {
            continue;
        }
        let missing = floors(store).missing(&History::read(folder)?.counts());
        if missing.is_empty() {
            break;
        }
        ensure!(started.elapsed() < AT_MOST, "too little has happened: {missing:?}");
        looked = Instant::now();
    }
    chaos.heal()?;
    let ended = fleet.stop()?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(settle(store, &recorder))?;
    let history = History::read(folder)?;
    let reports = history.notes.iter().filter(|(_, note)| matches!(note, Entry::Quiet { .. }));
    // One of them is ours.
    let reports = reports.count() - 1;
    ensure!(reports == ended, "{reports} of {ended} processes came to an end in order");
    let limits = Limits { outage: OUTAGE, in_flight: IN_FLIGHT, ..Limits::new() };
    let violations = check(&history, &limits);
    let counts = history.counts();
    ensure!(
        violations.is_empty(),
        "{} violations in {counts}\n{}",
        violations.len(),
        violations.iter().take(5).map(ToString::to_string).collect::<Vec<_>>().join("\n")
    );
    let outage = history.longest_outage_ms();
    Ok(format!("{counts}; longest outage {outage} ms"))
}

/// Waits until the locks of the killed have run out, and notes what is left.
async fn settle(store: &Store, recorder: &Recorder) -> Result<()> {
    let connected = connect(&store.direct()).await?;
    let backend = Recording::new(connected.backend.clone(), recorder.clone());
    let registers = Registers::connect(&store.registers(), recorder.clone()).await?;
    let locks = longest_ttl(TTL) + TIME_TOLERANCE;
    let deadline = Instant::now() + locks + Duration::from_secs(8);
    for number in 0..KEYS {
        registers.note(&key(number)).await?;
        // Whether that takes too long is seen from the record.
        while backend.lookup(LookupRequest::by_key(key(number))?).await?.is_some()
            && Instant::now() < deadline
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    registers.close().await;
    drop((backend, connected));
    let (mut live, mut borrowed) = store.leftovers().await?;
    while (live, borrowed) != (0, 0) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
        (live, borrowed) = store.leftovers().await?;
    }
    recorder.note(Entry::Quiet { live, tasks: 0, borrowed });
    Ok(())
}

/// The processes.
struct Fleet<'a> {
    store: &'a Store,
    folder: &'a Path,
    recorder: &'a Recorder,
    random: Random,
    members: Vec<Member>,
    started: u32,
    next_fault: Instant,
}

enum Member {
    Works(Worker),
    /// SIGSTOP, until then.
    Stopped(Worker, Instant),
    /// SIGKILL, until then.
    Killed(Instant),
}

struct Worker {
    name: String,
    process: ServerProcess,
    history: PathBuf,
}

impl<'a> Fleet<'a> {
    fn new(
        store: &'a Store,
        folder: &'a Path,
        recorder: &'a Recorder,
        random: Random,
    ) -> Result<Self> {
        let next_fault = Instant::now() + Duration::from_millis(1500);
        let mut fleet =
            Self { store, folder, recorder, random, members: Vec::new(), started: 0, next_fault };
        for _ in 0..MEMBERS {
            let member = fleet.start()?;
            fleet.members.push(Member::Works(member));
        }
        Ok(fleet)
    }

    fn start(&mut self) -> Result<Worker> {
        let name = format!("member-{}", self.started);
        self.started += 1;
        let history = self.folder.join(format!("{name}.jsonl"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleet-worker"));
        command
            .args([self.store.breakable(), self.store.registers()])
            .arg(&history)
            .args([&name, &self.random.number().to_string(), &KEYS.to_string()])
            .arg(TTL.as_millis().to_string());
        let log = self.folder.join(format!("{name}.log"));
        let process = ServerProcess::spawn("fleet-worker", command, &log)?;
        Ok(Worker { name, process, history })
    }

    /// Does what is due.
    fn tick(&mut self) -> Result<()> {
        let now = Instant::now();
        for number in 0..self.members.len() {
            match &mut self.members[number] {
                Member::Killed(until) if *until <= now => {
                    self.members[number] = Member::Works(self.start()?);
                }
                Member::Stopped(_, until) if *until <= now => self.resume(number)?,
                _ => {}
            }
        }
        if self.next_fault <= now {
            self.next_fault = now + self.random.millis(250, 600);
            self.strike()?;
        }
        Ok(())
    }

    /// Kills or stops somebody.
    fn strike(&mut self) -> Result<()> {
        let working = |member: &&usize| matches!(self.members[**member], Member::Works(_));
        let all: Vec<usize> = (0..MEMBERS).collect();
        let working: Vec<usize> = all.iter().filter(working).copied().collect();
        // Somebody has to be there to come after them.
        if working.len() < 4 {
            return Ok(());
        }
        let number = *self.random.choose(&working);
        let kill = self.random.percent(60);
        let until = Instant::now()
            + if kill {
                self.random.millis(0, 300)
            } else {
                TTL + TIME_TOLERANCE + self.random.millis(50, 500)
            };
        let Member::Works(mut worker) =
            std::mem::replace(&mut self.members[number], Member::Killed(until))
        else {
            return Ok(());
        };
        if kill {
            worker.process.kill()?;
            self.recorder.note(Entry::Fault(Fault::Killed));
            self.recorder.note(Entry::Ended { process: worker.name });
        } else {
            worker.process.pause()?;
            self.recorder.note(Entry::Fault(Fault::Stopped));
            self.members[number] = Member::Stopped(worker, until);
        }
        Ok(())
    }

    fn resume(&mut self, number: usize) -> Result<()> {
        if !matches!(self.members[number], Member::Stopped(..)) {
            return Ok(());
        }
        let nobody = Member::Killed(Instant::now());
        if let Member::Stopped(mut worker, _) = std::mem::replace(&mut self.members[number], nobody)
        {
            worker.process.resume()?;
            self.members[number] = Member::Works(worker);
        }
        Ok(())
    }

    /// Lets everybody finish what is under way; says how many have a report to make.
    fn stop(mut self) -> Result<usize> {
        for number in 0..self.members.len() {
            self.resume(number)?;
        }
        let workers = self.members.into_iter().filter_map(|member| match member {
            Member::Works(worker) => Some(worker),
            _ => None,
        });
        let stops: Vec<_> = workers
            .map(|Worker { process, history, .. }| {
                thread::spawn(move || process.stop(Signal::TERM).map(|()| history))
            })
            .collect();
        let mut reports = 0;
        for stop in stops {
            // Who was stopped before he had begun has none.
            let history = stop.join().ok().context("a thread that panicked")??;
            reports += usize::from(history.exists());
        }
        Ok(reports)
    }
}
