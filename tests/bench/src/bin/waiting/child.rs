//! The work of a child process.

use anyhow::{Result, bail};
use syncguard_bench::firestore::Raw;
use syncguard_core::{LockBackend, Locker};
use syncguard_memory::MemoryBackend;
use syncguard_postgres::PostgresBackend;
use syncguard_redis::RedisBackend;

use crate::far::{Deaf, Far};
use crate::job::{Contest, Job, Store, Way};
use crate::locks::Ours;
use crate::poller::Poller;
use crate::process::tell;
use crate::{contest, crash};

pub(crate) async fn run(store: &Store, job: &Job) -> Result<()> {
    let uncounted = || 0;
    match store {
        Store::Memory => with(store, MemoryBackend::new(), job, uncounted).await,
        Store::Redis { url } => {
            with(store, RedisBackend::connect(url).await?, job, uncounted).await
        }
        Store::Postgres { url, .. } => {
            with(store, PostgresBackend::connect(url).await?, job, uncounted).await
        }
        // Its calls are counted by the client.
        Store::Firestore { port } => {
            let raw = Raw::new(*port)?;
            with(store, raw.backend()?, job, || raw.calls()).await
        }
    }
}

async fn with<B: LockBackend>(
    store: &Store,
    backend: B,
    job: &Job,
    calls: impl Fn() -> u64,
) -> Result<()> {
    match job {
        Job::Contest(contest) => contest_with(store, backend, contest, calls).await,
        Job::Hold(locks) => crash::hold(backend, locks).await,
        Job::Follow(locks) => crash::follow(backend, locks).await,
    }
}

async fn contest_with<B: LockBackend>(
    store: &Store,
    backend: B,
    contest: &Contest,
    calls: impl Fn() -> u64,
) -> Result<()> {
    let outcome = match contest.way {
        Way::Ours if contest.latency.is_zero() => {
            contest::run(contest, Ours(Locker::new(backend)), calls).await?
        }
        Way::Ours => {
            let far = Far::new(backend, contest.latency);
            contest::run(contest, Ours(Locker::new(far)), calls).await?
        }
        Way::Deaf => contest::run(contest, Ours(Locker::new(Deaf(backend))), calls).await?,
        Way::TypeScript => match Poller::new(store).await? {
            Some(poller) => contest::run(contest, poller, calls).await?,
            None => bail!("nobody polls {store:?}"),
        },
    };
    tell(&outcome)
}
