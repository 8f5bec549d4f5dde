//! The plan of a run, and its result.

use std::time::Duration;

use serde::Serialize;
use syncguard_history::{Counts, Limits, Violation};

use crate::flaw::Flaw;
use crate::link::{BOUND, MOST_SKEWED};

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
    /// The twin of the PostgreSQL statements.
    Postgres,
    /// The twin of the Firestore backend, with different clocks of its clients.
    Firestore,
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
            stops_at_once: false,
            lasts: None,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        // A commit may take some time after the check of the deadline.
        let commit = if self.store == Store::Postgres { 500 } else { 0 };
        // PostgreSQL: an acquire is resent on another connection; the first sending has its deadline, its commit and
        // its clean-up. Cluster: of two copies the backend grants none, so the only effect is that one id is seen
        // with two fences.
        let resent = match self.store {
            Store::Postgres => 3000,
            Store::RedisCluster => 1,
            Store::Memory | Store::Redis | Store::Firestore => 0,
        };
        // Locks live by clocks that differ.
        let skews = if self.store == Store::Firestore { 2 * MOST_SKEWED } else { 0 };
        let limits = Limits::new();
        Limits {
            resent: Duration::from_millis(resent),
            clocks: Duration::from_millis(3 + skews),
            drift: Duration::from_millis(skews),
            orphan: limits.orphan + Duration::from_millis(skews),
            // An operation of Firestore may take the time of two calls.
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
