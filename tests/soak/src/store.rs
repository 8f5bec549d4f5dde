//! The server of a run, which can be stopped and queried while others use it.

mod etcd;
mod file;

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use syncguard::postgres::{PostgresOptions, schema_sql};
use syncguard_test_services::azurite::{self, AzuriteServer};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::{PgBouncer, PoolMode, PostgresServer};
use syncguard_test_services::redis::{AppendOnly, RedisCluster, RedisServer};

use self::file::SqliteFile;
use crate::kind::Kind;

/// A server or a file, prepared for a fleet.
pub(crate) enum Server {
    /// Writes each change to its disk before it answers.
    Redis(RedisServer),
    /// Three masters, then their replicas in the same order, until a replica takes over.
    Cluster(RedisCluster),
    Postgres(PostgresServer),
    PgBouncer(PgBouncer, PostgresServer),
    /// Three members with their data on disk.
    Etcd(EtcdCluster),
    Firestore(FirestoreEmulator),
    Sqlite(SqliteFile),
    ObjectStore(AzuriteServer),
}

pub(crate) struct Store {
    kind: Kind,
    port: Option<u16>,
    server: Mutex<Server>,
}

impl Store {
    pub(crate) fn start(kind: Kind) -> Result<Self> {
        let server = match kind {
            Kind::Redis => {
                Server::Redis(RedisServer::builder().append_only(AppendOnly::Always).start()?)
            }
            Kind::RedisCluster => Server::Cluster(RedisCluster::start_with_replicas(3)?),
            Kind::Postgres => Server::Postgres(postgres()?),
            Kind::Pgbouncer => {
                let (server, config) = (postgres()?, ["server_login_retry = 1"]);
                let pooler = PgBouncer::start_with(&server, PoolMode::Transaction, &config)?;
                Server::PgBouncer(pooler, server)
            }
            Kind::Etcd => Server::Etcd(etcd::start()?),
            Kind::Firestore => Server::Firestore(FirestoreEmulator::start()?),
            Kind::Sqlite => Server::Sqlite(SqliteFile::new()?),
            Kind::ObjectStore => Server::ObjectStore(AzuriteServer::start()?),
        };
        let port = match &server {
            Server::Redis(server) => Some(server.port()),
            Server::Postgres(server) => Some(server.port()),
            Server::PgBouncer(pooler, _) => Some(pooler.port()),
            Server::Etcd(cluster) => Some(cluster.port(0)),
            Server::Firestore(server) => Some(server.port()),
            Server::ObjectStore(server) => Some(server.port()),
            // The nodes announce their own addresses, past any proxy.
            Server::Cluster(_) | Server::Sqlite(_) => None,
        };
        Ok(Self { kind, port, server: Mutex::new(server) })
    }

    /// The port behind a proxy. `None` for a file and a cluster.
    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Locks the server; other callers wait.
    pub(crate) fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// SIGSTOP: connections stay open, and requests get no answer. A file is kept from all other writers.
    pub(crate) fn pause(&self) -> Result<()> {
        match &mut *self.server() {
            Server::Redis(server) => server.pause(),
            // Clusters have their own ways to lose a master.
            Server::Cluster(_) | Server::Etcd(_) => Ok(()),
            Server::Postgres(server) | Server::PgBouncer(_, server) => server.pause(),
            Server::Firestore(server) => server.pause(),
            Server::ObjectStore(server) => server.pause(),
            Server::Sqlite(file) => file.pause(),
        }
    }

    /// SIGCONT: the server carries out the requests that were sent meanwhile.
    pub(crate) fn resume(&self) -> Result<()> {
        match &mut *self.server() {
            Server::Redis(server) => server.resume(),
            Server::Cluster(_) | Server::Etcd(_) => Ok(()),
            Server::Postgres(server) | Server::PgBouncer(_, server) => server.resume(),
            Server::Firestore(server) => server.resume(),
            Server::ObjectStore(server) => server.resume(),
            Server::Sqlite(file) => {
                file.resume();
                Ok(())
            }
        }
    }

    /// The URL of the server itself.
    pub(crate) fn direct(&self) -> String {
        match &*self.server() {
            Server::Sqlite(file) => return file.url(),
            Server::Cluster(nodes) => return format!("{}&wait_replicas=1", nodes.url()),
            _ => {}
        }
        self.url_at(self.port.unwrap_or_default())
    }

    /// The URL of the server at another port.
    pub(crate) fn url_at(&self, port: u16) -> String {
        match self.kind {
            Kind::Etcd => match &*self.server() {
                // Most processes begin with the proxy.
                Server::Etcd(cluster) => format!(
                    "etcd://{0},{0},{0},127.0.0.1:{1},127.0.0.1:{2}",
                    format_args!("127.0.0.1:{port}"),
                    cluster.port(1),
                    cluster.port(2)
                ),
                _ => String::new(),
            },
            Kind::Firestore => format!("firestore://127.0.0.1:{port}/{PROJECT}"),
            Kind::ObjectStore => AzuriteServer::url_at(port, PROJECT),
            Kind::Postgres | Kind::Pgbouncer => {
                let password = PostgresServer::PASSWORD;
                format!("{}://postgres:{password}@127.0.0.1:{port}/postgres", self.kind)
            }
            Kind::Redis => format!("redis://127.0.0.1:{port}"),
            // No proxy leads to them.
            Kind::RedisCluster | Kind::Sqlite => self.direct(),
        }
    }

    pub(crate) fn version(&self) -> Result<String> {
        Ok(match &*self.server() {
            Server::Redis(server) => redis_version(server)?,
            Server::Cluster(nodes) => redis_version(&nodes.nodes()[0])?,
            Server::Postgres(server) => postgres_version(server)?,
            Server::PgBouncer(pooler, server) => {
                format!("{}, {}", pooler.admin("SHOW VERSION")?, postgres_version(server)?)
            }
            Server::Etcd(cluster) => etcd::version(cluster)?,
            // The emulator does not report one.
            Server::Firestore(_) => "Firestore emulator".to_owned(),
            Server::ObjectStore(_) => azurite::RELEASE.to_owned(),
            Server::Sqlite(_) => format!("SQLite {}", rusqlite::version()),
        })
    }

    /// The number of records of locks in Redis, the index entries among them, and of the fleet's connections. Other
    /// stores list their locks, and keep no connections for a fleet.
    pub(crate) fn leftovers(&self) -> Result<(u64, u64)> {
        match &*self.server() {
            Server::Redis(server) => Ok((redis_records(server)?, redis_clients(server)?)),
            Server::Cluster(cluster) => {
                let (mut records, mut open) = (0, 0);
                for node in cluster.nodes() {
                    if node.cli(&["ROLE"])?.starts_with("master") {
                        records += redis_records(node)?;
                    }
                    open += redis_clients(node)?;
                }
                Ok((records, open))
            }
            Server::Postgres(server) => Ok((0, postgres_clients(server)?)),
            _ => Ok((0, 0)),
        }
    }
}

const PROJECT: &str = "fleet";

fn postgres() -> Result<PostgresServer> {
    let server = PostgresServer::builder().config("max_connections = 200").start()?;
    server.psql(&schema_sql(&PostgresOptions::new())?)?;
    Ok(server)
}

fn postgres_clients(server: &PostgresServer) -> Result<u64> {
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'syncguard'";
    Ok(server.psql(open)?.parse()?)
}

fn postgres_version(server: &PostgresServer) -> Result<String> {
    let version = server.psql("SHOW server_version")?;
    Ok(format!("PostgreSQL {}", version.split(' ').next().unwrap_or_default()))
}

fn redis_records(server: &RedisServer) -> Result<u64> {
    // In a cluster, names begin with a tag in braces.
    let names = server.cli(&["KEYS", "*syncguard:*"])?;
    Ok(names.lines().filter(|name| !name.contains(":fence:")).count() as u64)
}

fn redis_clients(server: &RedisServer) -> Result<u64> {
    let clients = server.cli(&["CLIENT", "LIST", "TYPE", "normal"])?;
    // One of these connections is the query itself.
    Ok(clients.lines().count().saturating_sub(1) as u64)
}

fn redis_version(server: &RedisServer) -> Result<String> {
    let info = server.cli(&["INFO", "server"])?;
    let version = info.lines().find_map(|line| line.trim().strip_prefix("redis_version:"));
    Ok(format!("Redis {}", version.context("no version")?))
}
