//! The stores of a fleet.

mod cluster;
mod firestore;
mod sqlite;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use syncguard::postgres::{PostgresOptions, schema_sql};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::{PgBouncer, PoolMode, PostgresServer};
use syncguard_test_services::redis::{AppendOnly, RedisServer};

pub use self::cluster::Cluster;
pub use self::sqlite::{SqliteFile, keep_out};
use crate::register::POSTGRES_SCHEMA;

/// A server or a file, prepared for a fleet.
#[derive(Debug)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Server {
    Redis(RedisServer),
    Cluster(Cluster),
    Postgres(PostgresServer),
    PgBouncer(PgBouncer, PostgresServer),
    Firestore(FirestoreEmulator),
    Sqlite(SqliteFile),
}

impl Server {
    /// One Redis server, which writes each change to its disk before it answers.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn redis() -> Result<Self> {
        Ok(Self::Redis(RedisServer::builder().append_only(AppendOnly::Always).start()?))
    }

    /// Three masters and three replicas.
    ///
    /// # Errors
    ///
    /// If they do not start.
    pub fn cluster() -> Result<Self> {
        Ok(Self::Cluster(Cluster::start()?))
    }

    /// One PostgreSQL server.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn postgres() -> Result<Self> {
        let server = PostgresServer::builder().config("max_connections = 200").start()?;
        server.psql(&schema_sql(&PostgresOptions::new())?)?;
        server.psql(POSTGRES_SCHEMA)?;
        Ok(Self::Postgres(server))
    }

    /// A PostgreSQL server behind a PgBouncer that shares connections by the transaction.
    ///
    /// # Errors
    ///
    /// If one of them does not start.
    pub fn pgbouncer() -> Result<Self> {
        let Self::Postgres(server) = Self::postgres()? else { anyhow::bail!("a server") };
        let pooler =
            PgBouncer::start_with(&server, PoolMode::Transaction, &["server_login_retry = 1"])?;
        Ok(Self::PgBouncer(pooler, server))
    }

    /// The emulator.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn firestore() -> Result<Self> {
        Ok(Self::Firestore(FirestoreEmulator::start()?))
    }

    /// A file. `PROGRAM keep-out FILE` calls [`keep_out`].
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    pub fn sqlite(program: &Path) -> Result<Self> {
        Ok(Self::Sqlite(SqliteFile::new(program)?))
    }
}

/// A server that can be stopped and queried while others use it.
#[derive(Debug)]
pub struct Store {
    name: &'static str,
    port: Option<u16>,
    server: Mutex<Server>,
}

impl Store {
    /// A store for a fleet.
    #[must_use]
    pub fn new(server: Server) -> Self {
        let (name, port) = match &server {
            Server::Redis(server) => ("redis", Some(server.port())),
            Server::Postgres(server) => ("postgres", Some(server.port())),
            Server::PgBouncer(pooler, _) => ("pgbouncer", Some(pooler.port())),
            Server::Firestore(server) => ("firestore", Some(server.port())),
            // The nodes announce their own addresses, past any proxy.
            Server::Cluster(_) => ("redis-cluster", None),
            Server::Sqlite(_) => ("sqlite", None),
        };
        Self { name, port, server: Mutex::new(server) }
    }

    /// The name of the store.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The port behind a proxy. `None` for a file and a cluster.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Locks the server; other callers wait.
    pub fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// SIGSTOP: connections stay open, and requests get no answer. For a file, a process is stopped during a write.
    ///
    /// # Errors
    ///
    /// If the server does not run.
    pub fn pause(&self) -> Result<()> {
        match &mut *self.server() {
            Server::Redis(server) => server.pause(),
            // Stops a master until its replica has taken over.
            Server::Cluster(cluster) => cluster.nodes.nodes_mut()[0].pause(),
            Server::Postgres(server) | Server::PgBouncer(_, server) => server.pause(),
            Server::Firestore(server) => server.pause(),
            Server::Sqlite(file) => file.pause(),
        }
    }

    /// SIGCONT: the server carries out the requests that were sent meanwhile.
    ///
    /// # Errors
    ///
    /// If the server does not run.
    pub fn resume(&self) -> Result<()> {
        match &mut *self.server() {
            Server::Redis(server) => server.resume(),
            Server::Cluster(cluster) => cluster.nodes.nodes_mut()[0].resume(),
            Server::Postgres(server) | Server::PgBouncer(_, server) => server.resume(),
            Server::Firestore(server) => server.resume(),
            Server::Sqlite(file) => file.resume(),
        }
    }

    /// The URL of the server itself.
    #[must_use]
    pub fn direct(&self) -> String {
        self.url_at(self.port)
    }

    /// The URL of the server at another port.
    #[must_use]
    pub fn url_at(&self, port: Option<u16>) -> String {
        let Some(port) = port else {
            return match &*self.server() {
                Server::Sqlite(file) => file.url(),
                Server::Cluster(cluster) => cluster.url(),
                _ => String::new(),
            };
        };
        let password = PostgresServer::PASSWORD;
        match self.name {
            "redis" => format!("redis://127.0.0.1:{port}"),
            "postgres" | "pgbouncer" => {
                format!("{}://postgres:{password}@127.0.0.1:{port}/postgres", self.name)
            }
            _ => format!("firestore://127.0.0.1:{port}/{}", firestore::PROJECT),
        }
    }

    /// The version of the server.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn version(&self) -> Result<String> {
        Ok(match &*self.server() {
            Server::Redis(server) => redis_version(server)?,
            Server::Cluster(cluster) => redis_version(&cluster.nodes.nodes()[0])?,
            Server::Postgres(server) => postgres_version(server)?,
            Server::PgBouncer(pooler, server) => {
                format!("{}, {}", pooler.admin("SHOW VERSION")?, postgres_version(server)?)
            }
            Server::Firestore(_) => firestore::version(),
            Server::Sqlite(_) => format!("SQLite {}", rusqlite::version()),
        })
    }

    /// The number of live records, and of the fleet's connections.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub async fn leftovers(&self) -> Result<(u64, u64)> {
        if let (Some(port), "firestore") = (self.port, self.name) {
            return Ok((firestore::live(port).await?, 0));
        }
        match &*self.server() {
            Server::Redis(server) => {
                let names = server.cli(&["KEYS", "syncguard:*"])?;
                let locks = names.lines().filter(|name| !name.starts_with("syncguard:fence:"));
                let clients = server.cli(&["CLIENT", "LIST", "TYPE", "normal"])?;
                // One of these connections is the query itself.
                Ok((locks.count() as u64, clients.lines().count().saturating_sub(1) as u64))
            }
            Server::Postgres(server) => postgres_leftovers(server),
            // The pooler keeps its own connections.
            Server::PgBouncer(_, server) => Ok((postgres_leftovers(server)?.0, 0)),
            Server::Firestore(_) => Ok((0, 0)),
            Server::Cluster(cluster) => cluster.leftovers(),
            Server::Sqlite(file) => Ok((file.live()?, 0)),
        }
    }
}

fn postgres_leftovers(server: &PostgresServer) -> Result<(u64, u64)> {
    let live = server.psql(
        "SELECT count(*) FROM syncguard_locks
        WHERE expires_at_ms + 1000 > extract(epoch FROM clock_timestamp()) * 1000",
    )?;
    let open = server.psql(
        "SELECT count(*) FROM pg_stat_activity
        WHERE application_name IN ('syncguard', 'register')",
    )?;
    Ok((live.parse()?, open.parse()?))
}

fn postgres_version(server: &PostgresServer) -> Result<String> {
    let version = server.psql("SHOW server_version")?;
    Ok(format!("PostgreSQL {}", version.split(' ').next().unwrap_or_default()))
}

fn redis_version(server: &RedisServer) -> Result<String> {
    let info = server.cli(&["INFO", "server"])?;
    let version = info.lines().find_map(|line| line.trim().strip_prefix("redis_version:"));
    Ok(format!("Redis {}", version.context("no version")?))
}
