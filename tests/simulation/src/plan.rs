//! The plan of a run, and its result.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use clap::ValueEnum;
use serde::Serialize;
use syncguard_core::DynBackend;
use syncguard_history::{Counts, Limits, Violation};
use syncguard_memory::MemoryBackend;
use syncguard_test_services::store::Store as Real;

use crate::flaw::Flaw;
use crate::link::{BOUND, Link};
use crate::network::EPOCH;
use crate::{etcd, firestore, objects, postgres, redis};

/// The store of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// The memory backend, in one process.
    Memory,
    /// The Redis backend, without fred; a server that runs its scripts.
    Redis,
    /// The same over a client that may send a request to two nodes of a cluster; each acquire waits for a replica.
    RedisCluster,
    /// The PostgreSQL backend with its driver; a server of its statements.
    Postgres,
    /// The same through a pooler: without prepared statements, cancellations and signals.
    Pgbouncer,
    /// The etcd backend without gRPC, with wrong clocks of its clients and different ones of its members; a store of records.
    Etcd,
    /// The Firestore backend without gRPC, with wrong clocks of its clients; a database of documents.
    Firestore,
    /// The backend on a bucket without HTTP, with wrong clocks of its clients; a bucket that tells its time by the changes of objects.
    ObjectStore,
}

impl Store {
    /// The fleets of a store.
    #[must_use]
    pub const fn of(store: Real) -> &'static [Self] {
        match store {
            Real::Memory => &[Self::Memory],
            // Its processes share a file and no server, so there are no messages to lose: its soak is its proof.
            Real::Sqlite => &[],
            Real::Redis => &[Self::Redis, Self::RedisCluster],
            Real::Postgres => &[Self::Postgres, Self::Pgbouncer],
            Real::Etcd => &[Self::Etcd],
            Real::Firestore => &[Self::Firestore],
            Real::ObjectStore => &[Self::ObjectStore],
        }
    }

    /// The fleets of all stores.
    pub fn all() -> impl Iterator<Item = Self> {
        Real::ALL.into_iter().flat_map(|store| Self::of(store).iter().copied())
    }

    /// The backend of a process.
    pub(crate) fn backend(self, link: &Arc<Link>) -> DynBackend {
        match self {
            Self::Memory => {
                let began = UNIX_EPOCH + Duration::from_millis(EPOCH);
                let now = began + Duration::from_micros(link.now());
                DynBackend::new(MemoryBackend::starting_at(now))
            }
            Self::Redis => DynBackend::new(redis::backend(link, false)),
            Self::RedisCluster => DynBackend::new(redis::backend(link, true)),
            Self::Postgres => DynBackend::new(postgres::backend(link, false)),
            Self::Pgbouncer => DynBackend::new(postgres::backend(link, true)),
            Self::Etcd => DynBackend::new(etcd::backend(link)),
            Self::Firestore => DynBackend::new(firestore::backend(link)),
            Self::ObjectStore => DynBackend::new(objects::backend(link)),
        }
    }
}

/// The name of a store or a flaw for people, such as `redis-cluster`.
#[must_use]
pub fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The store.
    pub store: Store,
    /// The seed, which decides everything.
    pub seed: u64,
    /// The number of operations.
    pub operations: u64,
    /// The number of processes.
    pub members: usize,
    /// The number of tasks of each process.
    pub workers: usize,
    /// The number of shared keys.
    pub keys: usize,
    /// The planted flaw.
    pub flaw: Option<Flaw>,
    /// True if an operator empties the store from time to time, which no store of locks survives: only service and
    /// clean-up are judged then.
    pub empties: bool,
    /// True if the run ends with the first violation.
    pub stops_at_once: bool,
    /// Ends the run after this many simulated milliseconds instead of a number of operations, to repeat a run
    /// exactly.
    pub lasts: Option<u64>,
}

impl Plan {
    /// The usual sizes.
    #[must_use]
    pub const fn new(store: Store, seed: u64, operations: u64) -> Self {
        // No other process reaches a store in memory.
        let (members, workers) = if matches!(store, Store::Memory) { (1, 48) } else { (6, 8) };
        Self {
            store,
            seed,
            operations,
            members,
            workers,
            keys: 32,
            flaw: None,
            empties: false,
            stops_at_once: false,
            lasts: None,
        }
    }

    /// The command that runs it again, if it has the usual sizes.
    #[must_use]
    pub fn command(&self) -> String {
        let store = name_of(&self.store);
        let Self { seed, operations, .. } = self;
        format!(
            "cargo run --release -p syncguard-simulation -- --store {store} --seed {seed} \
             --operations {operations} --each {operations} --threads 1"
        )
    }

    pub(crate) fn limits(&self) -> Limits {
        // A commit may take some time after the check of the deadline.
        let is_postgres = matches!(self.store, Store::Postgres | Store::Pgbouncer);
        let commit = if is_postgres { 500 } else { 0 };
        // PostgreSQL: an acquire is resent on another connection; the first sending has its deadline, its commit and
        // its clean-up. Cluster: of two copies the backend grants none, so the only effect is that one id is seen
        // with two fences.
        let resent = match self.store {
            Store::Postgres | Store::Pgbouncer => 3000,
            Store::RedisCluster => 1,
            Store::Memory | Store::Redis | Store::Etcd | Store::Firestore | Store::ObjectStore => 0,
        };
        // The width of the bounds in which clients know the store's time: that of an answer, and on etcd a second more and
        // the difference of the members.
        let by_clients = matches!(self.store, Store::Etcd | Store::Firestore | Store::ObjectStore);
        let answer = u64::try_from(BOUND.as_millis()).unwrap_or_default();
        let skews = match self.store {
            Store::Etcd => answer + 1000 + etcd::APART,
            Store::Firestore => answer,
            // A write and a read tell the time.
            Store::ObjectStore => 2 * answer,
            Store::Memory
            | Store::Redis
            | Store::RedisCluster
            | Store::Postgres
            | Store::Pgbouncer => 0,
        };
        let limits = Limits::new();
        Limits {
            resent: Duration::from_millis(resent),
            retried_extends: by_clients,
            clocks: Duration::from_millis(3 + skews),
            drift: Duration::from_millis(skews),
            orphan: limits.orphan + Duration::from_millis(skews),
            // An operation of Firestore, etcd or a bucket may take the time of some calls.
            in_flight: BOUND * if skews > 0 { 2 } else { 1 }
                + Duration::from_millis(200 + commit + skews),
            ..limits
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The counts of the run.
    pub counts: Counts,
    /// The violations.
    pub violations: Vec<Violation>,
    /// The number of violations.
    pub violated: u64,
    /// The longest time without service after a fault, in milliseconds.
    pub longest_outage_ms: u64,
    /// The simulated time, in seconds.
    pub simulated_seconds: u64,
    /// The simulated time in milliseconds at which all members were told to finish.
    pub lasted: u64,
    /// The real time, in seconds.
    pub seconds: f64,
    /// The largest size of the checker's memory.
    pub retained: usize,
}
