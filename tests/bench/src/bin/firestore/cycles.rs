//! One way to lock, measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_firestore::contract::ReleaseRequest;
use syncguard_firestore::gcloud_sdk::tonic::Code;
use syncguard_firestore::{FirestoreBackend, FirestoreOptions, LockBackend as _, LockId};

use crate::bare::Bare;
use crate::support::{Raw, request};
use crate::transactional::Transactional;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The backend.
    Ours,
    /// The backend, without a memory of its own locks.
    OursForgetful,
    /// The transactions of the specification.
    Transactions,
    /// The calls of the backend alone.
    Bare,
}

/// Cycles of some workers for a while.
#[derive(Default)]
pub(crate) struct Slice {
    /// The time of each cycle in ms, including the wait for other workers on one key.
    pub(crate) cycles: Vec<f64>,
    pub(crate) seconds: f64,
    pub(crate) calls: u64,
}

impl Slice {
    pub(crate) fn per_second(&self) -> f64 {
        self.cycles.len() as f64 / self.seconds
    }
}

impl Way {
    pub(crate) const ALL: [Self; 4] =
        [Self::Ours, Self::OursForgetful, Self::Bare, Self::Transactions];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "syncguard-firestore",
            Self::OursForgetful => "  remembering nothing",
            Self::Transactions => "the specification's transactions",
            Self::Bare => "the bare calls",
        }
    }
}

/// A client that locks one way, with a connection of its own.
pub(crate) struct Client {
    raw: Raw,
    locks: Locks,
}

enum Locks {
    Ours(FirestoreBackend),
    Transactions(Transactional),
    Bare(Bare),
}

impl Client {
    /// Connected, so that the first cycle measured is one like the others.
    pub(crate) async fn new(way: Way, url: &str) -> Result<Arc<Self>> {
        let raw = Raw::new(url);
        let options = FirestoreOptions::new();
        let locks = match way {
            Way::Ours => Locks::Ours(raw.backend(url, &options)),
            Way::OursForgetful => Locks::Ours(raw.backend(url, &options.with_remembered_locks(0))),
            Way::Transactions => Locks::Transactions(Transactional(raw.clone())),
            Way::Bare => Locks::Bare(Bare(raw.clone())),
        };
        let client = Arc::new(Self { raw, locks });
        client.cycle("warm").await?;
        Ok(client)
    }

    pub(crate) async fn measure(
        self: &Arc<Self>,
        workers: usize,
        one_key: bool,
        time: Duration,
    ) -> Result<Slice> {
        self.raw.calls();
        let started = Instant::now();
        let runtime = tokio::runtime::Handle::current();
        let tasks: Vec<_> = (0..workers)
            .map(|worker| {
                let client = Arc::clone(self);
                let key = if one_key { "hot".to_owned() } else { format!("k{worker}") };
                let runtime = runtime.clone();
                tokio::task::spawn_blocking(move || {
                    runtime.block_on(async move {
                        let mut cycles = Vec::new();
                        while started.elapsed() < time {
                            let begun = Instant::now();
                            if client.cycle(&key).await? {
                                cycles.push(begun.elapsed().as_secs_f64() * 1000.0);
                            }
                        }
                        anyhow::Ok(cycles)
                    })
                })
            })
            .collect();
        let mut cycles = Vec::new();
        for task in tasks {
            cycles.extend(task.await??);
        }
        let seconds = started.elapsed().as_secs_f64();
        Ok(Slice { cycles, seconds, calls: self.raw.calls() })
    }

    /// Takes the key, waiting for it for ten seconds at most, and gives it back.
    async fn cycle(&self, key: &str) -> Result<bool> {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(10) {
            if self.attempt(key).await? {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(false)
    }

    async fn attempt(&self, key: &str) -> Result<bool> {
        match &self.locks {
            Locks::Ours(backend) => {
                let Some(held) = backend.acquire(request(key, 60_000)).await?.acquired() else {
                    return Ok(false);
                };
                ensure!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
                Ok(true)
            }
            Locks::Transactions(client) => {
                let id = LockId::generate()?;
                match client.acquire(key, id, 60_000).await {
                    Ok(None) => return Ok(false),
                    Err(status) if status.code() == Code::Aborted => return Ok(false),
                    Err(status) => return Err(status.into()),
                    Ok(Some(_)) => {}
                }
                while client.release(id).await.is_err() {}
                Ok(true)
            }
            Locks::Bare(client) => client.cycle(key).await,
        }
    }
}
