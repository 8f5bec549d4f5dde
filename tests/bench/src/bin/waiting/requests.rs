//! Requests of a web server that come all at once, and want a few keys: the child's side.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use syncguard_core::{LockBackend, Locker};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::clock;
use crate::job::Requests;
use crate::locks::{Lock, Ours, Tokio};
use crate::process::{Parent, tell};

const REQUESTS: usize = 200;
const KEYS: usize = 5;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Served {
    /// The time of all requests in ms, with a mutex for each key in the process.
    pub(crate) mutex: f64,
    /// The time of all requests with our lock.
    pub(crate) ours: f64,
    pub(crate) failures: usize,
}

pub(crate) async fn run<B: LockBackend>(backend: B, requests: &Requests) -> Result<()> {
    let locker = Locker::new(backend);
    locker.acquire("warm").await?.release().await?;
    tokio::task::block_in_place(|| Parent.wait_for_start())?;
    let mutexes: Vec<_> = (0..KEYS).map(|_| Tokio(Arc::new(Mutex::new(())))).collect();
    let (mutex, _) = serve(requests.work, &mutexes).await?;
    let ours: Vec<_> = (0..KEYS).map(|_| Ours(locker.clone())).collect();
    let (ours, failures) = serve(requests.work, &ours).await?;
    tell(&Served { mutex, ours, failures })
}

/// The time of all requests in ms, and the number of failures.
async fn serve<L: Lock>(work: Duration, locks: &[L]) -> Result<(f64, usize)> {
    let started = Instant::now();
    let mut requests = JoinSet::new();
    for number in 0..REQUESTS {
        let lock = locks[number % KEYS].for_waiter().await?;
        requests.spawn(async move {
            let Ok(guard) = lock.acquire(&format!("request:{}", number % KEYS)).await else {
                return anyhow::Ok(1);
            };
            clock::exactly(work).await?;
            Ok(usize::from(lock.release(guard).await.is_err()))
        });
    }
    let mut failures = 0;
    while let Some(request) = requests.join_next().await {
        failures += request??;
    }
    Ok((started.elapsed().as_secs_f64() * 1000.0, failures))
}
