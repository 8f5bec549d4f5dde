//! A fleet: programs that count registers up under locks, some of them carelessly.

mod work;

use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard::DynBackend;
use syncguard::firestore::{FirestoreBackend, FirestoreOptions};
use syncguard::postgres::deadpool_postgres::Pool;
use syncguard::postgres::{PostgresBackend, PostgresOptions};
use syncguard::redis::{RedisBackend, RedisOptions};
use syncguard::sqlite::{SqliteBackend, SqliteOptions};

pub use work::{Plan, key, longest_ttl, work};

/// A backend on a real store, with timeouts that fit a run of seconds.
#[derive(Debug)]
pub struct Connected {
    /// The backend, behind the one type of all of them.
    pub backend: DynBackend,
    pool: Option<Pool>,
}

impl Connected {
    /// Connections that are not back in their pool.
    #[must_use]
    pub fn borrowed(&self) -> u64 {
        let Some(status) = self.pool.as_ref().map(Pool::status) else { return 0 };
        (status.size.saturating_sub(status.available)) as u64
    }
}

/// Connects to `redis://…`, `redis-cluster://…`, `postgres://…`, `sqlite:FILE`, or the emulator at `firestore://HOST:PORT/PROJECT`.
///
/// # Errors
///
/// When the store cannot be reached.
pub async fn connect(url: &str) -> Result<Connected> {
    let bound = Duration::from_secs(1);
    let (scheme, _) = url.split_once(':').context("a URL")?;
    let (backend, pool) = match scheme {
        "redis" | "redis-cluster" => {
            let options = RedisOptions::new().with_command_timeout(bound);
            (DynBackend::new(RedisBackend::connect_with(url, options).await?), None)
        }
        "postgres" => {
            let options =
                PostgresOptions::new().with_pool_wait_timeout(bound).with_statement_timeout(bound);
            let options = options.with_pool_size(4).with_connect_timeout(bound);
            let backend = PostgresBackend::connect_with(url, options).await?;
            let pool = backend.pool().clone();
            (DynBackend::new(backend), Some(pool))
        }
        "sqlite" => {
            let options = SqliteOptions::new().with_operation_timeout(bound);
            (DynBackend::new(SqliteBackend::connect_with(url, options).await?), None)
        }
        _ => {
            let Emulated { host_port, project } = Emulated::parse(url)?;
            let options = FirestoreOptions::new()
                .with_emulator(host_port)
                .with_request_timeout(bound)
                .with_operation_timeout(2 * bound);
            let url = format!("firestore://{project}");
            (DynBackend::new(FirestoreBackend::connect_with(&url, options).await?), None)
        }
    };
    Ok(Connected { backend, pool })
}

/// A database of an emulator, as the tests write it.
pub(crate) struct Emulated<'a> {
    pub(crate) host_port: &'a str,
    pub(crate) project: &'a str,
}

impl<'a> Emulated<'a> {
    pub(crate) fn parse(url: &'a str) -> Result<Self> {
        let rest = url.strip_prefix("firestore://").context("firestore://HOST:PORT/PROJECT")?;
        let (host_port, project) = rest.split_once('/').context("no project")?;
        Ok(Self { host_port, project })
    }
}
