//! The work of a child process.

use anyhow::{Result, bail};
use syncguard_bench::firestore::Raw;
use syncguard_core::{LockBackend, Locker};
use syncguard_memory::MemoryBackend;
use syncguard_postgres::PostgresBackend;
use syncguard_redis::RedisBackend;

use crate::far::{Deaf, Far};
use crate::job::{Job, Store, Way};
use crate::locks::Ours;
use crate::poller::Poller;
use crate::process::tell;
use crate::{contest, crash};

pub(crate) async fn run(store: &Store, job: &Job) -> Result<()> {
    match store {
        Store::Memory => with(store, MemoryBackend::new(), job).await,
        Store::Redis { url } => with(store, RedisBackend::connect(url).await?, job).await,
        Store::Postgres { url, .. } => with(store, PostgresBackend::connect(url).await?, job).await,
        Store::Firestore { port } => with(store, Raw::new(*port)?.backend()?, job).await,
    }
}

async fn with<B: LockBackend>(store: &Store, backend: B, job: &Job) -> Result<()> {
    let contest = match job {
        Job::Contest(contest) => contest,
        Job::Hold(locks) => return crash::hold(backend, locks).await,
        Job::Follow(locks) => return crash::follow(backend, locks).await,
    };
    let outcome = match contest.way {
        Way::Ours if contest.latency.is_zero() => {
            contest::run(contest, Ours(Locker::new(backend))).await?
        }
        Way::Ours => {
            let far = Far::new(backend, contest.latency);
            contest::run(contest, Ours(Locker::new(far))).await?
        }
        Way::Deaf => contest::run(contest, Ours(Locker::new(Deaf(backend)))).await?,
        Way::TypeScript => match Poller::new(store).await? {
            Some(poller) => contest::run(contest, poller).await?,
            None => bail!("nobody polls {store:?}"),
        },
    };
    tell(&outcome)
}
