//! One way to lock, measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_firestore::gcloud_sdk::tonic::Code;
use syncguard_firestore::{
    FirestoreBackend, FirestoreOptions, LockBackend as _, LockId, ReleaseRequest,
};

use crate::bare::Bare;
use crate::support::{Raw, request};
use crate::transactional::Transactional;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The backend.
    Ours,
    /// The backend, without a memory of its own locks.
    OursForgetful,
    /// What the specification's transactions do.
    Transactions,
    /// The calls that the backend makes, and nothing else.
    Bare,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) calls: f64,
}

impl Figures {
    pub(crate) fn median(mut rounds: Vec<Self>) -> Self {
        rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        rounds[rounds.len() / 2]
    }
}

enum Client {
    Ours(FirestoreBackend),
    Transactions(Transactional),
    Bare(Bare),
}

impl Way {
    pub(crate) fn all() -> [Self; 4] {
        [Self::Ours, Self::OursForgetful, Self::Transactions, Self::Bare]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "syncguard-firestore",
            Self::OursForgetful => "  remembering nothing",
            Self::Transactions => "the specification's transactions",
            Self::Bare => "the bare calls",
        }
    }

    /// Cycles for a while. A cycle's time includes the waiting for others on one key.
    pub(crate) async fn measure(
        self,
        url: &str,
        workers: usize,
        one_key: bool,
        time: Duration,
    ) -> Result<Figures> {
        let raw = Raw::new(url);
        let client = Arc::new(match self {
            Self::Ours => Client::Ours(raw.backend(url, &FirestoreOptions::new())),
            Self::OursForgetful => {
                Client::Ours(raw.backend(url, &FirestoreOptions::new().with_remembered_locks(0)))
            }
            Self::Transactions => Client::Transactions(Transactional(raw.clone())),
            Self::Bare => Client::Bare(Bare(raw.clone())),
        });
        client.cycle("warm").await?;
        raw.calls();
        let started = Instant::now();
        let runtime = tokio::runtime::Handle::current();
        let tasks: Vec<_> = (0..workers)
            .map(|worker| {
                let client = Arc::clone(&client);
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
        let elapsed = started.elapsed().as_secs_f64();
        ensure!(!cycles.is_empty(), "{self:?}: not one cycle");
        cycles.sort_by(f64::total_cmp);
        let quantile = |q: f64| cycles[((cycles.len() - 1) as f64 * q) as usize];
        Ok(Figures {
            per_second: cycles.len() as f64 / elapsed,
            p50: quantile(0.5),
            p99: quantile(0.99),
            calls: raw.calls() as f64 / cycles.len() as f64,
        })
    }
}

impl Client {
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
        match self {
            Self::Ours(backend) => {
                let Some(held) = backend.acquire(request(key, 60_000)).await?.acquired() else {
                    return Ok(false);
                };
                ensure!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
                Ok(true)
            }
            Self::Transactions(client) => {
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
            Self::Bare(client) => client.cycle(key).await,
        }
    }
}
