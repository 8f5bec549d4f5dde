//! The stores a fleet runs on, each behind a way that can be broken.

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use syncguard::postgres::{PostgresOptions, schema_sql};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::ListDocumentsRequest;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::{RedisCluster, RedisServer};
use syncguard_tests::register::{POSTGRES_SCHEMA, emulator_client};
use tempfile::TempDir;

/// A server with what a fleet needs in it.
pub(crate) enum Server {
    Redis(RedisServer),
    Cluster(Cluster),
    Postgres(PostgresServer),
    Firestore(FirestoreEmulator),
    Sqlite(SqliteFile),
}

/// A file instead of a server: what stops everybody is a process that is stopped while it writes.
pub(crate) struct SqliteFile {
    folder: TempDir,
    writer: Option<Child>,
}

impl SqliteFile {
    fn path(&self) -> String {
        self.folder.path().join("locks.db").display().to_string()
    }

    fn pause(&mut self) -> Result<()> {
        let mut writer = Command::new(env!("CARGO_BIN_EXE_sqlite-worker"))
            .args(["keep-out", &self.path()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut said = [0; 3];
        std::io::Read::read_exact(writer.stdout.as_mut().context("a pipe")?, &mut said)?;
        let process = Pid::from_raw(writer.id().cast_signed()).context("a process")?;
        kill_process(process, Signal::STOP)?;
        self.writer = Some(writer);
        Ok(())
    }

    /// Killed while it is stopped: what it had begun is gone with it.
    fn resume(&mut self) -> Result<()> {
        if let Some(mut writer) = self.writer.take() {
            writer.kill()?;
            writer.wait()?;
        }
        Ok(())
    }

    fn live(&self) -> Result<u64> {
        let now = clock_gettime(ClockId::Boottime);
        let millis = now.tv_sec * 1000 + now.tv_nsec / 1_000_000;
        let sql = "SELECT count(*) FROM locks WHERE expires_ms + 1000 > ?1";
        let count =
            Connection::open(self.path())?.query_row(sql, [millis], |row| row.get::<_, i64>(0));
        Ok(count?.unsigned_abs())
    }
}

impl Drop for SqliteFile {
    fn drop(&mut self) {
        let _ = self.resume();
    }
}

/// Three masters and three replicas, which are waited for; the registers are on a server beside them.
pub(crate) struct Cluster {
    nodes: RedisCluster,
    registers: RedisServer,
}

impl Cluster {
    fn url(&self) -> String {
        format!("{}&wait_replicas=1", self.nodes.url())
    }

    fn leftovers(&self) -> Result<(u64, u64)> {
        let (mut live, mut open) = (0, 0);
        for node in self.nodes.nodes() {
            if node.cli(&["ROLE"])?.starts_with("master") {
                let names = node.cli(&["KEYS", "{syncguard:*"])?;
                live += names.lines().filter(|name| !name.contains("}:fence:")).count() as u64;
            }
            let clients = node.cli(&["CLIENT", "LIST", "TYPE", "normal"])?;
            // One of them asks.
            open += clients.lines().count().saturating_sub(1) as u64;
        }
        Ok((live, open))
    }
}

pub(crate) struct Store {
    name: &'static str,
    port: Option<u16>,
    server: Mutex<Server>,
    /// There is none where there is no network.
    pub(crate) proxy: Option<FaultProxy>,
}

impl Server {
    pub(crate) fn redis() -> Result<Self> {
        Ok(Self::Redis(RedisServer::start()?))
    }

    pub(crate) fn cluster() -> Result<Self> {
        let nodes = RedisCluster::start_with_replicas(3)?;
        Ok(Self::Cluster(Cluster { nodes, registers: RedisServer::start()? }))
    }

    pub(crate) fn postgres() -> Result<Self> {
        let server = PostgresServer::builder().config("max_connections = 200").start()?;
        server.psql(&schema_sql(&PostgresOptions::new()).expect("options in range"))?;
        server.psql(POSTGRES_SCHEMA)?;
        Ok(Self::Postgres(server))
    }

    pub(crate) fn firestore() -> Result<Self> {
        Ok(Self::Firestore(FirestoreEmulator::start()?))
    }

    pub(crate) fn sqlite() -> Result<Self> {
        Ok(Self::Sqlite(SqliteFile { folder: tempfile::tempdir()?, writer: None }))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Redis(_) => "redis",
            Self::Cluster(_) => "redis-cluster",
            Self::Postgres(_) => "postgres",
            Self::Firestore(_) => "firestore",
        }
    }

    fn port(&self) -> Option<u16> {
        match self {
            Self::Redis(server) => Some(server.port()),
            Self::Postgres(server) => Some(server.port()),
            Self::Firestore(server) => Some(server.port()),
            // Its nodes say themselves where they are, past any proxy.
            Self::Cluster(_) | Self::Sqlite(_) => None,
        }
    }
}

impl Store {
    pub(crate) fn new(server: Server) -> Result<Self> {
        let (name, port) = (server.name(), server.port());
        let proxy = port.map(FaultProxy::start).transpose()?;
        Ok(Self { name, port, server: Mutex::new(server), proxy })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// `None` for a file, and for a cluster.
    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }

    /// SIGSTOP: connections stay open and nobody answers.
    pub(crate) fn pause(&self) -> Result<()> {
        self.with(|server| match server {
            Server::Redis(server) => server.pause(),
            // A master, until its replica has taken over.
            Server::Cluster(cluster) => cluster.nodes.nodes_mut()[0].pause(),
            Server::Postgres(server) => server.pause(),
            Server::Firestore(server) => server.pause(),
            Server::Sqlite(file) => file.pause(),
        })
    }

    /// SIGCONT: what was sent meanwhile is carried out.
    pub(crate) fn resume(&self) -> Result<()> {
        self.with(|server| match server {
            Server::Redis(server) => server.resume(),
            Server::Cluster(cluster) => cluster.nodes.nodes_mut()[0].resume(),
            Server::Postgres(server) => server.resume(),
            Server::Firestore(server) => server.resume(),
            Server::Sqlite(file) => file.resume(),
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Server) -> T) -> T {
        work(&mut self.server.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The URL of the server itself.
    pub(crate) fn direct(&self) -> String {
        self.url_at(self.port)
    }

    /// The URL of the server that has the registers.
    pub(crate) fn registers(&self) -> String {
        let apart = self.with(|server| match server {
            Server::Cluster(cluster) => Some(cluster.registers.url()),
            _ => None,
        });
        apart.unwrap_or_else(|| self.direct())
    }

    /// The URL of the way that can be broken.
    pub(crate) fn breakable(&self) -> String {
        self.url_at(self.proxy.as_ref().map(FaultProxy::port))
    }

    /// The URL of the server at another port.
    pub(crate) fn url_at(&self, port: Option<u16>) -> String {
        let Some(port) = port else {
            return self.with(|server| match server {
                Server::Sqlite(file) => format!("sqlite:{}", file.path()),
                Server::Cluster(cluster) => cluster.url(),
                _ => String::new(),
            });
        };
        let password = PostgresServer::PASSWORD;
        match self.name {
            "redis" => format!("redis://127.0.0.1:{port}"),
            "postgres" => format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres"),
            _ => format!("firestore://127.0.0.1:{port}/fleet"),
        }
    }

    /// How many live records there are, and how many connections of a fleet.
    pub(crate) async fn leftovers(&self) -> Result<(u64, u64)> {
        if let (Some(port), "firestore") = (self.port, self.name) {
            return Ok((live_documents(&format!("127.0.0.1:{port}")).await?, 0));
        }
        self.with(|server| match server {
            Server::Redis(server) => {
                let names = server.cli(&["KEYS", "syncguard:*"])?;
                let locks = names.lines().filter(|name| !name.starts_with("syncguard:fence:"));
                let clients = server.cli(&["CLIENT", "LIST", "TYPE", "normal"])?;
                // One of them asks.
                Ok((locks.count() as u64, clients.lines().count().saturating_sub(1) as u64))
            }
            Server::Postgres(server) => {
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
            Server::Firestore(_) => Ok((0, 0)),
            Server::Cluster(cluster) => cluster.leftovers(),
            Server::Sqlite(file) => Ok((file.live()?, 0)),
        })
    }
}

async fn live_documents(host_port: &str) -> Result<u64> {
    let database = "projects/fleet/databases/(default)";
    let mut client =
        emulator_client(host_port, database, Some("owner"), std::sync::Arc::default())?;
    let request = ListDocumentsRequest {
        parent: format!("{database}/documents"),
        collection_id: "locks".to_owned(),
        page_size: 100,
        ..ListDocumentsRequest::default()
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
    let documents = client.list_documents(request).await?.into_inner().documents;
    let live = documents.iter().filter(|document| {
        let expiry = document.fields.get("expiresAtMs").and_then(|it| it.value_type.as_ref());
        !matches!(expiry, Some(ValueType::IntegerValue(at)) if i128::from(*at) + 1000 <= now.cast_signed())
    });
    Ok(live.count() as u64)
}
