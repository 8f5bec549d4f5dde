//! A process of a fleet, until SIGTERM or SIGKILL.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use syncguard::CancellationToken;
use syncguard_history::{Entry, Random, Recorder, Recording};
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::connect::connect;
use crate::recipes::Recipes;
use crate::registers::Registers;
use crate::skew::Skew;
use crate::work::{Plan, work};

#[allow(clippy::unsafe_derive_deserialize, reason = "the unsafe code is in a macro of tokio")]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) locks: String,
    pub(crate) registers: String,
    /// The pipe for its part of the history.
    pub(crate) record: PathBuf,
    pub(crate) seed: u64,
    /// The number of keys that the fleet shares.
    pub(crate) keys: u64,
    /// The TTL in milliseconds.
    pub(crate) ttl: u64,
    pub(crate) tasks: u64,
    /// The largest error of its clock in milliseconds, for stores whose locks depend on the clocks of clients.
    pub(crate) skew: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Increments registers: see [`work`].
    Counts,
    /// Uses each recipe: see [`Recipes`].
    Recipes,
}

impl Member {
    /// Works until SIGTERM, then finishes the current operations.
    pub(crate) fn run(&self) -> Result<()> {
        Builder::new_current_thread().enable_all().build()?.block_on(self.live())
    }

    async fn live(&self) -> Result<()> {
        // This comes before the record exists: a process with a history then also ends in order, unless it is killed.
        let mut terminated = signal(SignalKind::terminate())?;
        let recorder = Recorder::to_file(&self.name, &self.record)?;
        let stop = CancellationToken::new();
        let told = async {
            terminated.recv().await;
            stop.cancel();
        };
        let (worked, ()) = tokio::join!(self.use_locks(&recorder, &stop), told);
        let borrowed = worked?;
        let tasks = settled(|| Handle::current().metrics().num_alive_tasks() as u64).await;
        recorder.note(Entry::Quiet { live: 0, tasks, borrowed });
        Ok(())
    }

    /// Returns the number of connections that were not back at the end.
    async fn use_locks(&self, recorder: &Recorder, stop: &CancellationToken) -> Result<u64> {
        let mut random = Random::new(self.seed);
        let clock = Skew::new(Duration::from_millis(self.skew), random.number());
        let clock = Some(clock).filter(|_| self.skew > 0);
        let connected = patiently(stop, || connect(&self.locks, clock)).await?;
        let registers =
            patiently(stop, || Registers::connect(&self.registers, recorder.clone())).await?;
        let (Some(connected), Some(registers)) = (connected, registers) else { return Ok(0) };
        let backend = Recording::new(connected.backend.clone(), recorder.clone());
        let ttl = Duration::from_millis(self.ttl);
        match self.role {
            Role::Counts => {
                let mut tasks = JoinSet::new();
                for _ in 0..self.tasks {
                    let plan = Plan { keys: self.keys, ttl, seed: random.number() };
                    let (backend, registers, stop) =
                        (backend.clone(), registers.clone(), stop.clone());
                    tasks.spawn(async move { work(&backend, &registers, &plan, &stop).await });
                }
                tasks.join_all().await;
            }
            Role::Recipes => {
                let recipes = Recipes {
                    backend: backend.clone(),
                    registers: registers.clone(),
                    recorder: recorder.clone(),
                    ttl,
                    stop: stop.clone(),
                };
                Box::pin(recipes.run(&mut random)).await?;
            }
        }
        // Operations without a caller go on for a while.
        let borrowed = settled(|| connected.borrowed()).await;
        drop((connected, backend));
        registers.close().await;
        Ok(borrowed)
    }
}

/// The network may be broken just when a program starts. `None` if the process is told to stop first.
pub(crate) async fn patiently<T, F: Future<Output = Result<T>>>(
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
async fn settled(count: impl Fn() -> u64) -> u64 {
    let started = Instant::now();
    while count() > 0 && started.elapsed() < LEFT_FOR {
        sleep(Duration::from_millis(10)).await;
    }
    count()
}
