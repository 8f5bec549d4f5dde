//! The server at the end of the network.

use crate::etcd::Records;
use crate::firestore::Documents;
use crate::flaw::Flaw;
use crate::objects::Bucket;
use crate::plan::Store;
use crate::postgres::Tables;
use crate::redis;

pub(crate) enum Server {
    /// Locks are in the memory of the one process.
    None,
    /// One step for each command. True if commands may be sent to two of its nodes.
    Redis { server: Box<redis::Server>, is_clustered: bool },
    /// Several steps for each statement. True if a pooler is in front of it.
    Postgres { tables: Box<Tables>, is_pooled: bool },
    /// One step for each call.
    Firestore(Box<Documents>),
    /// The same.
    Etcd(Box<Records>),
    /// The same.
    ObjectStore(Bucket),
}

/// Why a server refuses writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is a replica now.
    Replica,
    /// Its disk, its memory or its quota is used up.
    Full,
}

impl Server {
    /// An empty server.
    pub(crate) fn of(store: Store, seed: u64, flaw: Option<Flaw>) -> Self {
        match store {
            Store::Memory => Self::None,
            Store::Redis | Store::RedisCluster => {
                let patches = flaw.map(Flaw::patches).unwrap_or_default();
                let server = Box::new(redis::Server::new(patches).expect("Lua"));
                Self::Redis { server, is_clustered: store == Store::RedisCluster }
            }
            Store::Postgres | Store::Pgbouncer => {
                let tables = Box::new(Tables::new(flaw));
                Self::Postgres { tables, is_pooled: store == Store::Pgbouncer }
            }
            Store::Firestore => Self::Firestore(Box::default()),
            Store::Etcd => Self::Etcd(Box::new(Records::new(seed))),
            Store::ObjectStore => Self::ObjectStore(Bucket::default()),
        }
    }

    pub(crate) fn is_pooled(&self) -> bool {
        matches!(self, Self::Postgres { is_pooled: true, .. })
    }

    pub(crate) fn is_clustered(&self) -> bool {
        matches!(self, Self::Redis { is_clustered: true, .. })
    }

    /// The tables of PostgreSQL.
    pub(crate) fn tables(&mut self) -> &mut Tables {
        let Self::Postgres { tables, .. } = self else { panic!("no tables") };
        tables
    }

    /// True if a request may arrive twice, because a proxy of the store sends it again.
    pub(crate) fn may_double(&self) -> bool {
        self.is_clustered() || matches!(self, Self::ObjectStore(_))
    }

    /// All connections are lost, and what is under way. The data stay.
    pub(crate) fn restarts(&mut self) {
        match self {
            Self::None | Self::ObjectStore(_) => {}
            Self::Redis { server, .. } => server.restarts(),
            Self::Postgres { tables, .. } => tables.restarts(),
            Self::Firestore(documents) => documents.restarts(),
            Self::Etcd(records) => records.restarts(),
        }
    }

    /// Refuses all writes from now on, or takes them again.
    pub(crate) fn refuses(&mut self, refusal: Option<Refusal>) {
        match self {
            Self::None => {}
            Self::Redis { server, .. } => server.refuses(refusal),
            Self::Postgres { tables, .. } => tables.refuses(refusal),
            Self::Firestore(documents) => documents.is_refusing = refusal.is_some(),
            Self::Etcd(records) => records.refuses(refusal.is_some()),
            Self::ObjectStore(bucket) => bucket.is_refusing = refusal.is_some(),
        }
    }

    /// A connection that hears of changes is gone.
    pub(crate) fn closes(&mut self, connection: u64) {
        match self {
            Self::None | Self::ObjectStore(_) => {}
            Self::Redis { server, .. } => server.closes(connection),
            Self::Postgres { tables, .. } => tables.closes(connection),
            Self::Firestore(documents) => documents.closes(connection),
            Self::Etcd(records) => records.closes(connection),
        }
    }

    /// The number of live locks at a time in milliseconds.
    pub(crate) fn live(&mut self, now: u64) -> u64 {
        match self {
            Self::None => 0,
            Self::Redis { server, .. } => server.live(1000 * now),
            Self::Postgres { tables, .. } => tables.live(now),
            Self::Firestore(documents) => documents.live(now),
            Self::Etcd(records) => records.live(now),
            Self::ObjectStore(bucket) => bucket.live(now),
        }
    }
}
