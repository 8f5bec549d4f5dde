//! The stores, and what is particular about each.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use syncguard_history::{Fault, Limits};
use syncguard_tests::fleet::stores::{Server, Store};

/// A store that a fleet can run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One server, with an append-only file that is written before each answer
    Redis,
    /// Three masters and three replicas, one of which is waited for
    RedisCluster,
    /// One server
    Postgres,
    /// A server behind a PgBouncer that pools by the transaction
    Pgbouncer,
    /// The emulator, with clients whose clocks differ and step
    Firestore,
    /// A file
    Sqlite,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Kind {
    pub(crate) fn start(self) -> Result<Store> {
        Ok(Store::new(match self {
            Self::Redis => Server::redis()?,
            Self::RedisCluster => Server::cluster()?,
            Self::Postgres => Server::postgres()?,
            Self::Pgbouncer => Server::pgbouncer()?,
            Self::Firestore => Server::firestore()?,
            Self::Sqlite => Server::sqlite(&std::env::current_exe()?)?,
        }))
    }

    /// By how much the clock of a client may be off, where that counts: two of them differ by twice as much,
    /// and the tolerance is 1 s.
    pub(crate) fn skew(self) -> Duration {
        match self {
            Self::Firestore => Duration::from_millis(200),
            _ => Duration::ZERO,
        }
    }

    /// How long processes are left alone, on average: where nothing can go wrong on the way, more of them are
    /// killed and stopped.
    pub(crate) fn calm(self) -> Duration {
        Duration::from_millis(match self {
            Self::RedisCluster | Self::Sqlite => 150,
            _ => 600,
        })
    }

    pub(crate) fn limits(self) -> Limits {
        let skews = 2 * self.skew();
        let limits = Limits::new();
        Limits {
            // A busy machine starts programs and connections late: the specification's two seconds are
            // for a machine that has nothing else to do.
            outage: Duration::from_secs(10),
            // The longest time limit of an operation, after which the stores refuse what they get, and a
            // second for a busy machine. What is held back, or sent to a stopped server, arrives later.
            in_flight: Duration::from_secs(3) + skews,
            clocks: limits.clocks + skews,
            drift: skews,
            orphan: limits.orphan + skews,
            ..limits
        }
    }

    /// What has to have happened before a run says anything.
    pub(crate) fn catalogue(self) -> Vec<Fault> {
        let mut faults = vec![Fault::Killed, Fault::Stopped, Fault::ServerStopped];
        faults.extend(match self {
            Self::Sqlite => vec![Fault::KeptOut],
            Self::RedisCluster => {
                vec![Fault::Severed, Fault::Delayed, Fault::FailedOver, Fault::Resharded]
            }
            _ => vec![Fault::Cut, Fault::Delayed, Fault::Severed, Fault::Frozen, Fault::Late],
        });
        faults.extend(match self {
            Self::Redis | Self::Postgres => vec![Fault::ServerRestarted],
            Self::Pgbouncer => vec![Fault::ServerRestarted, Fault::PoolerRestarted],
            _ => Vec::new(),
        });
        faults
    }
}
