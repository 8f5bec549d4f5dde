//! What is run, and what came of it.

use std::time::Duration;

use serde::Serialize;
use syncguard_history::{Counts, Limits, Violation};

use crate::flaw::Flaw;
use crate::twin::{BOUND, MOST_SKEWED};

/// Which store the fleet works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// The embedded backend, as a server.
    Memory,
    /// The twin of the Redis scripts.
    Redis,
    /// The same, with a driver that may send a request to two nodes of a cluster.
    RedisCluster,
    /// The twin of the PostgreSQL statements.
    Postgres,
    /// The twin of the Firestore backend, whose clients' clocks are apart.
    Firestore,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// On which store.
    pub store: Store,
    /// Decides everything.
    pub seed: u64,
    /// The run ends after so many operations.
    pub operations: u64,
    /// How many processes.
    pub members: usize,
    /// How many tasks each of them has.
    pub workers: usize,
    /// How many keys they share.
    pub keys: usize,
    /// What is wrong on purpose.
    pub flaw: Option<Flaw>,
    /// Whether a run ends with the first violation.
    pub stops_at_once: bool,
    /// Ends the run after so many simulated milliseconds, and not by the number of its operations: to run it
    /// again as it was.
    pub lasts: Option<u64>,
}

impl Plan {
    /// The usual sizes.
    #[must_use]
    pub const fn new(store: Store, seed: u64, operations: u64) -> Self {
        Self {
            store,
            seed,
            operations,
            members: 6,
            workers: 8,
            keys: 32,
            flaw: None,
            stops_at_once: false,
            lasts: None,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        // A commit may take its time after the deadline was looked at.
        let commit = if self.store == Store::Postgres { 500 } else { 0 };
        // Sent again on another connection; the first sending has its deadline, its commit and its clean-up.
        // Of a cluster's two, nothing is granted: that one id is seen with two fences is all.
        let resent = match self.store {
            Store::Postgres => 3000,
            Store::RedisCluster => 1,
            Store::Memory | Store::Redis | Store::Firestore => 0,
        };
        // Locks live by clocks that are apart.
        let skews = if self.store == Store::Firestore { 2 * MOST_SKEWED } else { 0 };
        let limits = Limits::new();
        Limits {
            resent: Duration::from_millis(resent),
            clocks: Duration::from_millis(3 + skews),
            drift: Duration::from_millis(skews),
            orphan: limits.orphan + Duration::from_millis(skews),
            // An operation of Firestore may have two calls' time.
            in_flight: BOUND * if skews > 0 { 2 } else { 1 }
                + Duration::from_millis(200 + commit + skews),
            ..limits
        }
    }
}

/// What a run comes to.
#[derive(Debug)]
pub struct Outcome {
    /// What has happened.
    pub counts: Counts,
    /// What was broken.
    pub violations: Vec<Violation>,
    /// How many times.
    pub violated: u64,
    /// The longest time without service after a fault, in milliseconds.
    pub longest_outage_ms: u64,
    /// How much time has passed in the simulation, in seconds.
    pub simulated_seconds: u64,
    /// After how many simulated milliseconds everybody was asked to finish.
    pub lasted: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The most that the checker kept at a time.
    pub retained: usize,
}
