//! The ways to take and give back a lock, and how fast each is.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::fs::{FlockOperation, flock};
use syncguard_sqlite::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard_sqlite::{LockBackend as _, SqliteBackend, SqliteOptions, Synchronous};
use tokio::task::JoinSet;

use crate::bare::Bare;

/// One way, with what it has open.
#[derive(Clone)]
pub(crate) enum Way {
    Backend(SqliteBackend, &'static str),
    Bare(Arc<Mutex<Bare>>, &'static str),
    Flock,
    Mutex(Arc<Mutex<HashMap<usize, Arc<tokio::sync::Mutex<()>>>>>),
}

/// The results of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Figures {
    pub(crate) fn median(mut rounds: Vec<Self>) -> Self {
        rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        rounds[rounds.len() / 2]
    }

    pub(crate) fn of(mut latencies: Vec<Duration>, took: Duration) -> Self {
        latencies.sort_unstable();
        let percentile = |of_hundred: usize| {
            latencies[(latencies.len() - 1) * of_hundred / 100].as_secs_f64() * 1e6
        };
        let per_second = latencies.len() as f64 / took.as_secs_f64();
        Self { per_second, p50: percentile(50), p99: percentile(99) }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(_, synchronous) => {
                write!(f, "syncguard-sqlite, synchronous={synchronous}")
            }
            Self::Bare(_, synchronous) => {
                write!(f, "(a) same SQL, bare rusqlite, synchronous={synchronous}")
            }
            Self::Flock => f.write_str("(b) flock(2), a file for each key"),
            Self::Mutex(_) => f.write_str("(c) tokio::sync::Mutex, one for each key"),
        }
    }
}

impl Way {
    /// The backend and (a), each durable and not, then (b) and (c).
    pub(crate) async fn all(folder: &Path) -> Result<[Self; 6]> {
        let normal = SqliteOptions::new().with_synchronous(Synchronous::Normal);
        let bare = |name: &str, synchronous| {
            Ok::<_, anyhow::Error>(Arc::new(Mutex::new(Bare::open(
                &folder.join(name),
                synchronous,
            )?)))
        };
        Ok([
            Self::Backend(SqliteBackend::open(folder.join("full.db")).await?, "full"),
            Self::Bare(bare("bare-full.db", "FULL")?, "full"),
            Self::Backend(
                SqliteBackend::open_with(folder.join("normal.db"), normal).await?,
                "normal",
            ),
            Self::Bare(bare("bare-normal.db", "NORMAL")?, "normal"),
            Self::Flock,
            Self::Mutex(Arc::default()),
        ])
    }

    /// Before a round, writes of the last round are finished.
    pub(crate) fn clear(&self, _: &Path) -> Result<()> {
        rustix::fs::sync();
        Ok(())
    }

    pub(crate) async fn measure(
        &self,
        folder: &Path,
        concurrency: usize,
        time: Duration,
    ) -> Result<Figures> {
        let mut workers = JoinSet::new();
        let started = Instant::now();
        for number in 0..concurrency {
            let (way, folder) = (self.clone(), folder.to_owned());
            match way {
                Self::Backend(..) | Self::Mutex(_) => {
                    workers.spawn(async move { way.tasks(number, started, time).await });
                }
                // These calls block.
                Self::Bare(..) | Self::Flock => {
                    workers.spawn_blocking(move || way.threads(&folder, number, started, time));
                }
            }
        }
        let mut latencies = Vec::new();
        while let Some(worker) = workers.join_next().await {
            latencies.append(&mut worker??);
        }
        Ok(Figures::of(latencies, started.elapsed()))
    }

    async fn tasks(
        &self,
        number: usize,
        started: Instant,
        time: Duration,
    ) -> Result<Vec<Duration>> {
        let key = format!("key {number}");
        let mut latencies = Vec::with_capacity(16_384);
        while started.elapsed() < time {
            let start = Instant::now();
            match self {
                Self::Backend(backend, _) => cycle(backend, &key).await?,
                Self::Mutex(mutexes) => {
                    let mutex = Arc::clone(mutexes.lock().unwrap().entry(number).or_default());
                    drop(mutex.lock().await);
                    tokio::task::yield_now().await;
                }
                Self::Bare(..) | Self::Flock => bail!("it blocks"),
            }
            latencies.push(start.elapsed());
        }
        Ok(latencies)
    }

    fn threads(
        &self,
        folder: &Path,
        number: usize,
        started: Instant,
        time: Duration,
    ) -> Result<Vec<Duration>> {
        let key = format!("key {number}");
        let file = File::create(folder.join(format!("flock {number}")))?;
        let mut latencies = Vec::with_capacity(16_384);
        while started.elapsed() < time {
            let start = Instant::now();
            match self {
                Self::Bare(bare, _) => bare.lock().unwrap().cycle(&key)?,
                _ => {
                    flock(&file, FlockOperation::LockExclusive)?;
                    flock(&file, FlockOperation::Unlock)?;
                }
            }
            latencies.push(start.elapsed());
        }
        Ok(latencies)
    }
}

pub(crate) async fn cycle(backend: &SqliteBackend, key: &str) -> Result<()> {
    const TTL: Duration = Duration::from_secs(30);
    let AcquireResult::Acquired(lock) = backend.acquire(AcquireRequest::new(key, TTL)?).await?
    else {
        bail!("held");
    };
    if !backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released() {
        bail!("not held");
    }
    Ok(())
}
