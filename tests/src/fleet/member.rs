//! A process of a fleet, until SIGTERM or SIGKILL.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use syncguard::{CancellationToken, DynBackend};
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Flaw, Flawed, Plan, Skew, connect_by, recipes, work};
use crate::register::Registers;
use syncguard_history::Random;
use syncguard_history::Recording;
use syncguard_history::{Entry, Recorder};

/// The configuration of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name in the history.
    pub name: String,
    /// Its work.
    pub role: Role,
    /// The URL of the locks.
    pub locks: String,
    /// The URL of the registers.
    pub registers: String,
    /// The path for its part of the history: a file or a named pipe.
    pub record: PathBuf,
    /// The seed of all random decisions.
    pub seed: u64,
    /// The number of keys that the fleet shares.
    pub keys: u64,
    /// The TTL in milliseconds.
    pub ttl: u64,
    /// The number of its tasks.
    pub tasks: u64,
    /// The largest error of its clock in milliseconds, for stores whose locks depend on the clocks of clients.
    pub skew: u64,
    /// A flaw of its backend, to check that the run finds it.
    pub flaw: Option<Flaw>,
}

/// The work of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Increments registers: see [`work`].
    Counts,
    /// Uses each recipe: see [`recipes`].
    Recipes,
}

impl Member {
    /// Works until SIGTERM, then finishes the current operations.
    ///
    /// # Errors
    ///
    /// If there is no connection within 30 seconds.
    pub fn run(&self) -> Result<()> {
        Builder::new_current_thread().enable_all().build()?.block_on(live(self))
    }
}

async fn live(member: &Member) -> Result<()> {
    // This comes before the record exists: a process with a history then also ends in order, unless it is killed.
    let mut terminated = signal(SignalKind::terminate())?;
    let recorder = Recorder::to_file(&member.name, &member.record)?;
    let stop = CancellationToken::new();
    let told = async {
        terminated.recv().await;
        stop.cancel();
    };
    let (worked, ()) = tokio::join!(use_locks(member, &recorder, &stop), told);
    let borrowed = worked?;
    let tasks = settled(|| Handle::current().metrics().num_alive_tasks() as u64).await;
    recorder.note(Entry::Quiet { live: 0, tasks, borrowed });
    Ok(())
}

/// Returns the number of connections that were not back at the end.
async fn use_locks(member: &Member, recorder: &Recorder, stop: &CancellationToken) -> Result<u64> {
    let mut random = Random::new(member.seed);
    let clock = Skew::new(Duration::from_millis(member.skew), random.number());
    let clock = Some(clock).filter(|_| member.skew > 0);
    let connected = patiently(stop, || connect_by(&member.locks, clock)).await?;
    let registers =
        patiently(stop, || Registers::connect(&member.registers, recorder.clone())).await?;
    let (Some(connected), Some(registers)) = (connected, registers) else { return Ok(0) };
    let backend = match member.flaw {
        Some(flaw) => {
            let random = Random::new(random.number());
            DynBackend::new(Flawed::new(connected.backend.clone(), flaw, random))
        }
        None => connected.backend.clone(),
    };
    let backend = Recording::new(backend, recorder.clone());
    let ttl = Duration::from_millis(member.ttl);
    match member.role {
        Role::Counts => {
            let mut tasks = JoinSet::new();
            for _ in 0..member.tasks {
                let plan = Plan { keys: member.keys, ttl, seed: random.number() };
                let (backend, registers, stop) = (backend.clone(), registers.clone(), stop.clone());
                tasks.spawn(async move { work(&backend, &registers, &plan, &stop).await });
            }
            tasks.join_all().await;
        }
        Role::Recipes => {
            let all = recipes::All {
                backend: backend.clone(),
                registers: registers.clone(),
                recorder: recorder.clone(),
                ttl,
                stop: stop.clone(),
            };
            Box::pin(all.run(&mut random)).await?;
        }
    }
    // Operations without a caller go on for a while.
    let borrowed = settled(|| connected.borrowed()).await;
    drop((connected, backend));
    registers.close().await;
    Ok(borrowed)
}

/// The network may be broken just when a program starts. `None` if the process is told to stop first.
async fn patiently<T, F: Future<Output = Result<T>>>(
    stop: &CancellationToken,
    mut connect: impl FnMut() -> F,
) -> Result<Option<T>> {
    let started = Instant::now();
    while !stop.is_cancelled() {
        match connect().await {
            Ok(connected) => return Ok(Some(connected)),
            Err(error) if started.elapsed() > Duration::from_secs(30) => {
                return Err(error).context("no connection within 30 s");
            }
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    Ok(None)
}

/// The limit for operations without a caller: until a server is back that went away just then.
const LEFT_FOR: Duration = Duration::from_secs(15);

/// Returns the count once it is zero, or its value at the time limit.
pub async fn settled(count: impl Fn() -> u64) -> u64 {
    let started = Instant::now();
    while count() > 0 && started.elapsed() < LEFT_FOR {
        sleep(Duration::from_millis(10)).await;
    }
    count()
}
