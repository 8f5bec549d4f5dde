//! The stores and their settings.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use syncguard_history::{Fault, Limits};
use syncguard_tests::fleet::stores::{Server, Store};

/// A store that a fleet can run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A server with an append-only file that is written before each answer
    Redis,
    /// Three masters and three replicas; each write waits for a replica
    RedisCluster,
    /// One server
    Postgres,
    /// A server behind a PgBouncer that pools by transaction
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

    /// The largest error of a client's clock, if locks depend on it: two clocks differ by up to twice as much, and
    /// the tolerance is 1 s.
    pub(crate) fn skew(self) -> Duration {
        match self {
            Self::Firestore => Duration::from_millis(200),
            _ => Duration::ZERO,
        }
    }

    /// The average pause between two actions on processes: without a network that can break, more processes are
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
            // A busy machine starts programs and connections late: the two seconds of the specification are for an
            // idle machine.
            outage: Duration::from_secs(10),
            // The longest time limit of an operation, after which the stores refuse it, and two seconds for a busy
            // machine. Requests that are held back, or sent to a stopped server, arrive later.
            in_flight: Duration::from_secs(4) + skews,
            clocks: limits.clocks + skews,
            drift: skews,
            orphan: limits.orphan + skews,
            ..limits
        }
    }

    /// The minimum for a run that proves anything.
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
