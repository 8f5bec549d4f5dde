//! Ways to take and give back a lock, measured beside each other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_core::LockBackend;
use syncguard_core::contract::{AcquireRequest, ReleaseRequest};
use tokio::task::JoinSet;

const ROUNDS: usize = 5;
const TTL: Duration = Duration::from_secs(60);

/// One way to lock.
pub trait Way: Clone + Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// Takes and gives back a lock that no other task takes.
    fn cycle(&self, task: usize) -> impl Future<Output = Result<()>> + Send;

    /// True if cycles block their thread.
    fn blocks(&self) -> bool {
        false
    }

    /// Finishes what the last round has left to do.
    fn settle(&self) {}

    /// The cycles a second of a program that runs by itself.
    fn run_by_itself(&self, _tasks: usize, _time: Duration) -> Option<Result<f64>> {
        None
    }
}

/// Rounds of several ways.
pub struct Table<W> {
    tasks: usize,
    /// With the cycles a second of each round.
    ways: Vec<(W, Vec<f64>)>,
}

impl<W: Way> Table<W> {
    /// Measures all ways by turns, several times, so that other work of the machine affects all of them.
    pub async fn measure(ways: Vec<W>, tasks: usize, time: Duration) -> Result<Self> {
        let mut ways: Vec<_> = ways.into_iter().map(|way| (way, Vec::new())).collect();
        for (way, _) in &ways {
            round(way, tasks, time / 4).await?; // connections, statements, pages
        }
        for _ in 0..ROUNDS {
            for (way, rounds) in &mut ways {
                way.settle();
                rounds.push(round(way, tasks, time).await?);
            }
        }
        Ok(Self { tasks, ways })
    }

    /// Prints the median of each way.
    pub fn print(&self, title: &str) {
        println!("\n  {} at once{title}: cycles a second", self.tasks);
        for (way, rounds) in &self.ways {
            let (name, per_second) = (way.name(), median(rounds.iter().copied()));
            println!("  {name:<44} {per_second:>9.0}");
        }
    }

    /// How many cycles one way does for each cycle of another: the median of all rounds.
    #[must_use]
    pub fn ratio(&self, one: usize, other: usize) -> f64 {
        let [one, other] = [one, other].map(|way| self.ways[way].1.iter());
        median(one.zip(other).map(|(one, other)| one / other))
    }
}

async fn round<W: Way>(way: &W, tasks: usize, time: Duration) -> Result<f64> {
    if let Some(per_second) = tokio::task::block_in_place(|| way.run_by_itself(tasks, time)) {
        return per_second;
    }
    let (started, mut running) = (Instant::now(), JoinSet::new());
    for task in 0..tasks {
        let way = way.clone();
        let blocks = way.blocks();
        let cycles = async move {
            let mut count = 0_u32;
            while started.elapsed() < time {
                way.cycle(task).await?;
                count += 1;
            }
            anyhow::Ok(count)
        };
        if blocks {
            let runtime = tokio::runtime::Handle::current();
            running.spawn_blocking(move || runtime.block_on(cycles));
        } else {
            running.spawn(cycles);
        }
    }
    let mut all = 0;
    while let Some(cycles) = running.join_next().await {
        all += cycles??;
    }
    Ok(f64::from(all) / started.elapsed().as_secs_f64())
}

/// A cycle of a backend.
pub async fn cycle<B: LockBackend>(backend: &B, key: &str) -> Result<()> {
    let lock = backend.acquire(AcquireRequest::new(key, TTL)?).await?;
    let lock = lock.acquired().context("a free key")?;
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
