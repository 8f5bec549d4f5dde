//! The list of stores.
//!
//! Each suite that runs on every store takes the stores from here, by a `match` without a wildcard: a store that is added
//! here does not compile until each suite has it, or says why it is left out.

use std::fmt;
use std::path::Path;

use anyhow::Result;
use tempfile::TempDir;

use crate::azurite::AzuriteServer;
use crate::etcd::EtcdCluster;
use crate::firestore::FirestoreEmulator;
use crate::postgres::PostgresServer;
use crate::redis::RedisServer;
use crate::scratch;

/// A store that the library has a backend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Store {
    /// This process.
    Memory,
    /// A file for the processes of one machine.
    Sqlite,
    /// Redis or Valkey.
    Redis,
    /// PostgreSQL.
    Postgres,
    /// etcd.
    Etcd,
    /// Cloud Firestore, or its emulator.
    Firestore,
    /// A bucket of S3, Azure or Google Cloud; in tests, a container of Azurite.
    ObjectStore,
}

impl Store {
    /// Each of them.
    pub const ALL: [Self; 7] = [
        Self::Memory,
        Self::Sqlite,
        Self::Redis,
        Self::Postgres,
        Self::Etcd,
        Self::Firestore,
        Self::ObjectStore,
    ];

    /// The name of its backend, of its feature, and of its crate after `syncguard-`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
            Self::Firestore => "firestore",
            Self::ObjectStore => "object-store",
        }
    }

    /// The scheme of its URLs; of a bucket, that of Azure.
    #[must_use]
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::ObjectStore => "az",
            _ => self.name(),
        }
    }

    /// The name of its modules.
    #[must_use]
    pub fn module(self) -> String {
        self.name().replace('-', "_")
    }

    /// Its name in pages.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "SQLite",
            Self::Redis => "Redis",
            Self::Postgres => "PostgreSQL",
            Self::Etcd => "etcd",
            Self::Firestore => "Firestore",
            Self::ObjectStore => "S3",
        }
    }

    /// The time limits that its URLs can set, each as `NAME_timeout_ms`.
    #[must_use]
    pub const fn timeouts(self) -> &'static [&'static str] {
        match self {
            Self::Memory => &["dispose"],
            Self::Sqlite => &["operation", "dispose"],
            Self::Redis => &["operation", "connect", "dispose"],
            Self::Postgres => &["operation", "pool_wait", "statement", "connect", "dispose"],
            Self::Etcd | Self::Firestore | Self::ObjectStore => {
                &["operation", "request", "connect", "dispose"]
            }
        }
    }

    /// A URL of this store with this time for each of its time limits.
    #[must_use]
    pub fn with_timeouts(self, url: String, millis: u64) -> String {
        let timeouts = self.timeouts().iter();
        timeouts.fold(url, |url, timeout| format!("{url}&{timeout}_timeout_ms={millis}"))
    }

    /// True if waiters hear of releases.
    #[must_use]
    pub const fn has_signals(self) -> bool {
        match self {
            Self::Memory
            | Self::Sqlite
            | Self::Redis
            | Self::Postgres
            | Self::Etcd
            | Self::Firestore => true,
            Self::ObjectStore => false,
        }
    }

    /// True if several processes can use one store.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        match self {
            Self::Memory => false,
            Self::Sqlite
            | Self::Redis
            | Self::Postgres
            | Self::Etcd
            | Self::Firestore
            | Self::ObjectStore => true,
        }
    }

    /// Starts its server, if it has one.
    pub fn start(self) -> Result<RunningStore> {
        Ok(RunningStore(match self {
            Self::Memory => Running::Memory,
            Self::Sqlite => Running::Sqlite(scratch::folder("sqlite")?),
            Self::Redis => Running::Redis(RedisServer::start()?),
            Self::Postgres => Running::Postgres(PostgresServer::start()?),
            Self::Etcd => Running::Etcd(EtcdCluster::start(1)?),
            Self::Firestore => Running::Firestore(FirestoreEmulator::start()?),
            Self::ObjectStore => Running::ObjectStore(AzuriteServer::start()?),
        }))
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A store whose server runs for as long as this value lives.
#[derive(Debug)]
pub struct RunningStore(Running);

#[derive(Debug)]
enum Running {
    Memory,
    Sqlite(TempDir),
    Redis(RedisServer),
    Postgres(PostgresServer),
    Etcd(EtcdCluster),
    Firestore(FirestoreEmulator),
    ObjectStore(AzuriteServer),
}

impl RunningStore {
    /// The URL of a [part](Server::url) of the store.
    #[must_use]
    pub fn url(&self, part: &str) -> String {
        let server = match &self.0 {
            Running::Memory => Server::Memory,
            Running::Sqlite(folder) => Server::Sqlite(folder.path()),
            Running::Redis(server) => Server::Redis(server),
            Running::Postgres(server) => Server::Postgres(server),
            Running::Etcd(cluster) => Server::Etcd(cluster),
            Running::Firestore(emulator) => Server::Firestore(emulator),
            Running::ObjectStore(server) => Server::ObjectStore(server),
        };
        server.url(part)
    }
}

/// A server of anybody, or the folder of files.
#[derive(Clone, Copy, Debug)]
pub enum Server<'s> {
    /// This process.
    Memory,
    /// The folder of the files.
    Sqlite(&'s Path),
    /// A server.
    Redis(&'s RedisServer),
    /// A server.
    Postgres(&'s PostgresServer),
    /// A cluster.
    Etcd(&'s EtcdCluster),
    /// An emulator.
    Firestore(&'s FirestoreEmulator),
    /// An emulator.
    ObjectStore(&'s AzuriteServer),
}

impl Server<'_> {
    /// The URL of a part of the store, which is empty at first: of the prefix, tables, project or file of this name, which
    /// has lower-case letters, digits and hyphens. Options can be added with `&`.
    #[must_use]
    pub fn url(self, part: &str) -> String {
        match self {
            Self::Memory => "memory:?".to_owned(),
            Self::Sqlite(folder) => format!("sqlite:{}/{part}.db?", folder.display()),
            Self::Redis(server) => format!("{}?key_prefix={part}", server.url()),
            Self::Postgres(server) => {
                let (url, table) = (server.url(), part.replace('-', "_"));
                format!("{url}?setup_schema=true&lock_table={table}&fence_table={table}_fences")
            }
            Self::Etcd(cluster) => format!("{}/{part}?", cluster.url()),
            Self::Firestore(emulator) => {
                format!("firestore://{part}/(default)?emulator={}", emulator.host_port())
            }
            Self::ObjectStore(server) => server.url(part),
        }
    }
}

/// A test for each store, which calls a function with the store. In a module of its own each test has its store's name.
#[macro_export]
macro_rules! test_each_store {
    ($test:path) => {
        $crate::test_each_store!($test: [] memory Memory, sqlite Sqlite, redis Redis, postgres Postgres,
            etcd Etcd, firestore Firestore, object_store ObjectStore);
    };
    ($test:path: [$($left_out:ident),*] $($name:ident $store:ident),*) => {
        const _: fn($crate::store::Store) = |store| match store {
            $($crate::store::Store::$store)|* $(| $crate::store::Store::$left_out)* => (),
        };
        $(
            #[test]
            fn $name() -> Result<()> {
                $test($crate::store::Store::$store)
            }
        )*
    };
}

/// The same for each store that has a server.
#[macro_export]
macro_rules! test_each_server {
    ($test:path) => {
        $crate::test_each_store!($test: [Memory, Sqlite] redis Redis, postgres Postgres, etcd Etcd,
            firestore Firestore, object_store ObjectStore);
    };
}
