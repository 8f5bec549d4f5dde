//! Backends on real stores, with timeouts that fit a run of seconds.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard::etcd::{EtcdBackend, EtcdOptions};
use syncguard::firestore::{FirestoreBackend, FirestoreOptions};
use syncguard::object_store::{ObjectStoreBackend, ObjectStoreOptions};
use syncguard::postgres::deadpool_postgres::Pool;
use syncguard::postgres::{PostgresBackend, PostgresOptions};
use syncguard::redis::{RedisBackend, RedisOptions};
use syncguard::sqlite::{SqliteBackend, SqliteOptions};
use syncguard::{DynBackend, acquire};

use crate::skew::Skew;

/// A backend, and its pool if it has one.
pub(crate) struct Connected {
    pub(crate) backend: DynBackend,
    pool: Option<Pool>,
}

impl Connected {
    /// The number of connections that are not back in their pool.
    pub(crate) fn borrowed(&self) -> u64 {
        let Some(status) = self.pool.as_ref().map(Pool::status) else { return 0 };
        (status.size.saturating_sub(status.available)) as u64
    }
}

/// Connects to `redis://…`, `redis-cluster://…`, `postgres://…`, `pgbouncer://…` (PostgreSQL through a pooler),
/// `sqlite:FILE`, `etcd://…`, `az://…`, or the emulator at `firestore://HOST:PORT/PROJECT`. A wrong clock is for stores whose locks depend on
/// the clocks of clients.
pub(crate) async fn connect(url: &str, clock: Option<Skew>) -> Result<Connected> {
    let (scheme, rest) = url.split_once(':').context("a URL")?;
    let (backend, pool) = match scheme {
        "redis" | "redis-cluster" => {
            let options = RedisOptions::new().with_operation_timeout(BOUND);
            (DynBackend::new(RedisBackend::connect_with(url, options).await?), None)
        }
        "postgres" | "pgbouncer" => {
            let options = PostgresOptions::new()
                .with_pool_wait_timeout(BOUND)
                .with_statement_timeout(BOUND)
                .with_pool_size(4)
                .with_connect_timeout(CONNECTS_WITHIN)
                .with_unprepared_statements(scheme == "pgbouncer");
            let url = format!("postgres:{rest}");
            let backend = PostgresBackend::connect_with(&url, options).await?;
            let pool = backend.pool().clone();
            (DynBackend::new(backend), Some(pool))
        }
        "sqlite" => {
            let options = SqliteOptions::new().with_operation_timeout(BOUND);
            (DynBackend::new(SqliteBackend::connect_with(url, options).await?), None)
        }
        "etcd" => {
            let mut options =
                EtcdOptions::new().with_request_timeout(BOUND).with_operation_timeout(2 * BOUND);
            if let Some(clock) = clock {
                options = options.with_clock(move || clock.now());
            }
            (DynBackend::new(EtcdBackend::connect_with(url, options).await?), None)
        }
        "az" => {
            let options = ObjectStoreOptions::new();
            let mut options = options.with_request_timeout(BOUND).with_operation_timeout(2 * BOUND);
            if let Some(clock) = clock {
                options = options.with_clock(move || clock.now());
            }
            (DynBackend::new(ObjectStoreBackend::connect_with(url, options).await?), None)
        }
        _ => {
            let address = rest.strip_prefix("//").and_then(|rest| rest.split_once('/'));
            let (host_port, project) = address.context("firestore://HOST:PORT/PROJECT")?;
            let mut options = FirestoreOptions::new()
                .with_emulator(host_port)
                .with_request_timeout(BOUND)
                .with_operation_timeout(2 * BOUND);
            if let Some(clock) = clock {
                options = options.with_clock(move || clock.now());
            }
            let url = format!("firestore://{project}");
            (DynBackend::new(FirestoreBackend::connect_with(&url, options).await?), None)
        }
    };
    Ok(Connected { backend, pool })
}

/// Waits until a store answers quickly: on a busy machine the emulator's first answers take seconds, longer than the
/// limits of a run.
pub(crate) async fn warm_up(url: &str) -> Result<()> {
    let (started, mut quick) = (Instant::now(), 0);
    let backend = connect(url, None).await?.backend;
    while quick < 5 {
        ensure!(started.elapsed() < Duration::from_secs(600), "the store stays slow");
        let asked = Instant::now();
        let taken = acquire(&backend, "warm-up").await;
        if let Ok(guard) = taken
            && guard.release().await.is_ok()
            && asked.elapsed() < Duration::from_millis(200)
        {
            quick += 1;
        } else {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// The longest time for a request.
const BOUND: Duration = Duration::from_secs(1);
/// The longest time for a new connection: a busy server starts a process for each.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
