//! The work of a child process.

use std::sync::Arc;

use anyhow::{Result, bail};
use syncguard_core::{LockBackend, Locker};
use syncguard_memory::MemoryBackend;
use syncguard_postgres::PostgresBackend;
use syncguard_redis::RedisBackend;
use syncguard_sqlite::SqliteBackend;
use tokio::sync::Mutex;
use {crate::support::Raw, syncguard_firestore::FirestoreOptions};

use crate::deaf::Deaf;
use crate::far::Far;
use crate::job::{Contest, Job, Store, Way};
#[cfg(feature = "etcd")]
use crate::locks::Etcd;
use crate::locks::{Advisory, Ours, Poller, Rslock, Tokio};
use crate::process::tell;
use crate::{contest, crash, requests, weight};

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
        Store::Sqlite { path } => {
            with(store, SqliteBackend::open(path).await?, job, uncounted).await
        }
        Store::Firestore { url, port } => firestore(store, url, *port, job).await,
        Store::Etcd { url } => etcd(url, job).await,
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
        Job::Hold(hold) => crash::hold(backend, hold).await,
        Job::Follow(follow) => crash::follow(backend, follow).await,
        Job::Weigh => weight::run(backend).await,
        Job::Requests(requests) => requests::run(backend, requests).await,
    }
}

async fn contest_with<B: LockBackend>(
    store: &Store,
    backend: B,
    contest: &Contest,
    calls: impl Fn() -> u64,
) -> Result<()> {
    let outcome = match (contest.way, store) {
        (Way::Ours, _) if contest.latency.is_zero() => {
            contest::run(contest, Ours(Locker::new(backend)), calls).await?
        }
        (Way::Ours, _) => {
            let far = Far::new(backend, contest.latency);
            contest::run(contest, Ours(Locker::new(far)), calls).await?
        }
        (Way::Deaf, _) => contest::run(contest, Ours(Locker::new(Deaf(backend))), calls).await?,
        (Way::TypeScript, _) => contest::run(contest, Poller::new(store).await?, calls).await?,
        (Way::Tokio, _) => contest::run(contest, Tokio(Arc::new(Mutex::new(()))), calls).await?,
        (Way::Rslock, Store::Redis { url }) => {
            contest::run(contest, Rslock::new(url), calls).await?
        }
        (Way::Advisory, Store::Postgres { port, .. }) => {
            contest::run(contest, Advisory::new(*port).await?, calls).await?
        }
        (way, store) => bail!("{way:?} does not lock on {store:?}"),
    };
    tell(&outcome)
}

#[cfg(feature = "etcd")]
async fn etcd(url: &str, job: &Job) -> Result<()> {
    let Job::Contest(contest) = job else { bail!("etcd has contests only") };
    tell(&contest::run(contest, Etcd::new(url).await?, || 0).await?)
}

#[cfg(not(feature = "etcd"))]
async fn etcd(_url: &str, _job: &Job) -> Result<()> {
    bail!("etcd's client is not built in")
}

/// Its calls are counted by the client.
async fn firestore(store: &Store, url: &str, port: u16, job: &Job) -> Result<()> {
    let raw = Raw::at(url, port);
    let backend = raw.backend(url, &FirestoreOptions::new());
    with(store, backend, job, || raw.calls_so_far()).await
}
