//! The servers, and what they say of their work.

use std::fs;

use anyhow::{Context as _, Result};
use syncguard_bench::Counter;
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;
use tempfile::TempDir;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Redis,
    Postgres,
    Etcd,
    Sqlite,
}

pub(crate) enum Server {
    Redis(RedisServer),
    Postgres(PostgresServer),
    Etcd(EtcdCluster),
    Sqlite(TempDir),
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Redis, Self::Postgres, Self::Etcd, Self::Sqlite];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
            Self::Sqlite => "sqlite",
        }
    }

    pub(crate) fn start(self) -> Result<Server> {
        Ok(match self {
            Self::Redis => Server::Redis(RedisServer::start()?),
            // Counts are the same without waiting for the disk.
            Self::Postgres => Server::Postgres(
                PostgresServer::builder()
                    .config("fsync = off")
                    .config("shared_preload_libraries = 'pg_stat_statements'")
                    .start()?,
            ),
            Self::Etcd => Server::Etcd(EtcdCluster::start(1)?),
            Self::Sqlite => Server::Sqlite(tempfile::tempdir()?),
        })
    }
}

impl Server {
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres(server) => format!("{}?setup_schema=true", server.url()),
            Self::Etcd(server) => server.url(),
            Self::Sqlite(folder) => format!("sqlite://{}/locks.db", folder.path().display()),
        }
    }

    pub(crate) async fn counter(&self) -> Result<Counter> {
        match self {
            Self::Redis(server) => Counter::redis(&server.url()).await,
            Self::Postgres(server) => Counter::postgres(server.port()).await,
            Self::Etcd(_) | Self::Sqlite(_) => Ok(Counter::None),
        }
    }

    /// The processor time so far, in seconds.
    pub(crate) fn processor(&self) -> Result<f64> {
        match self {
            Self::Redis(server) => processor(server.pid()?),
            Self::Postgres(server) => processor(server.pid()?),
            Self::Etcd(_) | Self::Sqlite(_) => Ok(0.0),
        }
    }

    /// The bytes that one counter takes, index included.
    pub(crate) fn bytes_of_a_counter(&self) -> Result<f64> {
        let bytes = match self {
            Self::Redis(server) => {
                let names = server.cli(&["--scan", "--pattern", "*fence*"])?;
                let name = names.lines().next().context("a counter")?;
                server.cli(&["MEMORY", "USAGE", name])?
            }
            Self::Postgres(server) => server.psql(
                "SELECT (pg_relation_size('syncguard_fence_counters') + pg_indexes_size('syncguard_fence_counters'))::float8
                    / count(*) FROM syncguard_fence_counters",
            )?,
            Self::Etcd(_) | Self::Sqlite(_) => return Ok(0.0),
        };
        Ok(bytes.parse()?)
    }
}

/// Of a process and its children.
fn processor(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(") ").next().context("no fields")?;
    // Of children that have ended, in the user's and in the system's mode: in hundredths of a second.
    let ended = after_name.split(' ').skip(13).take(2).map(str::parse::<f64>);
    let mut nanos = ended.sum::<Result<f64, _>>()? * 1e7;
    for pid in children(pid)?.into_iter().chain([pid]) {
        // A session may have ended in the meantime.
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let figures = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let time = figures.split(' ').next().and_then(|time| time.parse::<f64>().ok());
            nanos += time.unwrap_or(0.0);
        }
    }
    Ok(nanos / 1e9)
}

pub(crate) fn children(pid: u32) -> Result<Vec<u32>> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(children.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}
