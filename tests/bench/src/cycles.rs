//! Ways to take and give back a lock, measured beside each other.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_core::LockBackend;
use syncguard_core::contract::{AcquireRequest, ReleaseRequest};
use tokio::task::JoinSet;

use crate::Report;

/// One round is enough to see whether a way works.
const SHORT: Duration = Duration::from_millis(100);
const TTL: Duration = Duration::from_secs(60);

/// One way to lock.
pub struct Way {
    name: &'static str,
    runs: Runs,
}

enum Runs {
    /// Each takes and gives back the lock of a key, which no other task takes.
    Cycles { cycle: Arc<dyn Fn(String) -> Cycle + Send + Sync>, block: bool },
    /// A program that takes callers and a time, and answers with its cycles a second.
    ByItself(Box<dyn Fn(usize, Duration) -> Result<f64>>),
}

type Cycle = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

impl Way {
    pub fn new<C: Clone + Send + Sync + 'static, F>(
        name: &'static str,
        client: C,
        cycle: impl Fn(C, String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let cycle = move |key| -> Cycle { Box::pin(cycle(client.clone(), key)) };
        Self { name, runs: Runs::Cycles { cycle: Arc::new(cycle), block: false } }
    }

    pub fn backend(name: &'static str, backend: impl LockBackend) -> Self {
        Self::new(name, backend, |backend, key| async move { cycle(&backend, &key).await })
    }

    pub fn by_itself(
        name: &'static str,
        run: impl Fn(usize, Duration) -> Result<f64> + 'static,
    ) -> Self {
        Self { name, runs: Runs::ByItself(Box::new(run)) }
    }

    /// Its cycles block their thread.
    pub fn that_blocks(mut self) -> Self {
        if let Runs::Cycles { block, .. } = &mut self.runs {
            *block = true;
        }
        self
    }

    /// The cycles a second of so many callers.
    async fn round(&self, callers: usize, time: Duration) -> Result<f64> {
        let (cycle, block) = match &self.runs {
            Runs::Cycles { cycle, block } => (cycle, *block),
            Runs::ByItself(run) => return tokio::task::block_in_place(|| run(callers, time)),
        };
        let (started, mut running) = (Instant::now(), JoinSet::new());
        for caller in 0..callers {
            let cycle = Arc::clone(cycle);
            let cycles = async move {
                let (key, mut count) = (format!("order:{caller:012}"), 0_u32);
                while started.elapsed() < time {
                    cycle(key.clone()).await?;
                    count += 1;
                }
                anyhow::Ok(count)
            };
            if block {
                let runtime = tokio::runtime::Handle::current();
                running.spawn_blocking(move || runtime.block_on(cycles));
            } else {
                running.spawn(cycles);
            }
        }
        let all = running.join_all().await.into_iter().sum::<Result<u32>>()?;
        Ok(f64::from(all) / started.elapsed().as_secs_f64())
    }
}

/// Rounds of several ways.
pub struct Table {
    callers: usize,
    title: String,
    /// With the cycles a second of each round.
    ways: Vec<(Way, Vec<f64>)>,
}

impl Table {
    /// Measures all ways by turns, several times, so that other work of the machine affects all of them, and prints the
    /// median of each.
    pub async fn measure(
        ways: Vec<Way>,
        callers: usize,
        title: &str,
        time: Duration,
    ) -> Result<Self> {
        let mut ways: Vec<_> = ways.into_iter().map(|way| (way, Vec::new())).collect();
        for (way, _) in &ways {
            way.round(callers, time / 4).await?; // connections, statements, pages
        }
        let rounds = if time < SHORT { 1 } else { 5 };
        for _ in 0..rounds {
            for (way, rounds) in &mut ways {
                // The disk's work that the last round has left.
                rustix::fs::sync();
                rounds.push(way.round(callers, time).await?);
            }
        }
        println!("\n  {callers} at once{title}: cycles a second");
        for (way, rounds) in &ways {
            println!("  {:<44} {:>9.0}", way.name, median(rounds.iter().copied()));
        }
        Ok(Self { callers, title: title.to_owned(), ways })
    }

    /// Asks for at least this many cycles of one way for each cycle of another.
    pub fn compare(&self, [one, other]: [usize; 2], least: Option<f64>, report: &mut Report) {
        let [(one, ours), (other, theirs)] = [one, other].map(|way| &self.ways[way]);
        let ratio = median(ours.iter().zip(theirs).map(|(one, other)| one / other));
        let [one, other] = [one, other].map(|way| &way.name[..3]);
        let row = format!("{} at once{}, {one} for each of {other}", self.callers, self.title);
        match least {
            Some(least) => report.at_least(&row, ratio, least),
            None => println!("           {row}: {ratio:.2}"),
        }
    }
}

/// A cycle of a backend.
pub async fn cycle<B: LockBackend>(backend: &B, key: &str) -> Result<()> {
    let lock = backend.acquire(AcquireRequest::new(key, TTL)?).await?;
    let lock = lock.acquired().context("a free key")?;
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

/// Not a number if there are no values.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
