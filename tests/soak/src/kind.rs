//! The kinds of stores and their settings.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use syncguard_history::{Counts, Fault, Floors, Limits};
use syncguard_test_services::store::Store;

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
    /// Three members, with clients whose clocks differ and step
    Etcd,
    /// The emulator, with clients whose clocks differ and step
    Firestore,
    /// A file
    Sqlite,
    /// Azurite, with clients whose clocks differ and step
    ObjectStore,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Kind {
    /// The kinds of a store. The first has the name of its backend.
    pub(crate) const fn of(store: Store) -> &'static [Self] {
        match store {
            // No second process can reach it: the simulation is its proof.
            Store::Memory => &[],
            Store::Sqlite => &[Self::Sqlite],
            Store::Redis => &[Self::Redis, Self::RedisCluster],
            Store::Postgres => &[Self::Postgres, Self::Pgbouncer],
            Store::Etcd => &[Self::Etcd],
            Store::Firestore => &[Self::Firestore],
            Store::ObjectStore => &[Self::ObjectStore],
        }
    }

    /// The kinds of all stores.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Store::ALL.into_iter().flat_map(|store| Self::of(store).iter().copied())
    }

    /// The largest error of a client's wall clock, on stores without a clock of their own: no lock depends on it.
    pub(crate) fn skew(self) -> Duration {
        match self {
            Self::Etcd | Self::Firestore | Self::ObjectStore => Duration::from_secs(3600),
            Self::Redis | Self::RedisCluster | Self::Postgres | Self::Pgbouncer | Self::Sqlite => {
                Duration::ZERO
            }
        }
    }

    /// The widest bounds in which a client knows the store's time: the first answer of etcd or a bucket has whole seconds, and a busy machine
    /// is late with it.
    fn width(self) -> Duration {
        match self {
            Self::Etcd | Self::ObjectStore => Duration::from_secs(2),
            Self::Firestore => Duration::from_secs(1),
            Self::Redis | Self::RedisCluster | Self::Postgres | Self::Pgbouncer | Self::Sqlite => {
                Duration::ZERO
            }
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
        let skews = self.width();
        let limits = Limits::new();
        // The longest time limit of an operation, after which the stores refuse it, and two seconds for a busy machine.
        // Requests that are held back, or sent to a stopped server, arrive later.
        let in_flight = Duration::from_secs(4) + skews;
        // The first sending of an acquire that was resent may arrive after the release, while its process dies.
        let resends = matches!(self, Self::Postgres | Self::Pgbouncer);
        Limits {
            // A busy machine starts programs and connections late: the two seconds of the specification are for an
            // idle machine.
            outage: Duration::from_secs(10),
            in_flight,
            resent: if resends { in_flight } else { Duration::ZERO },
            clocks: limits.clocks + skews,
            drift: skews,
            orphan: limits.orphan + skews,
            ..limits
        }
    }

    /// The faults without which a run proves nothing.
    pub(crate) fn faults(self) -> Vec<Fault> {
        let mut faults = vec![Fault::Killed, Fault::Stopped, Fault::ServerStopped];
        faults.extend(match self {
            Self::Sqlite => vec![Fault::KeptOut],
            Self::RedisCluster => {
                vec![Fault::Severed, Fault::Delayed, Fault::FailedOver, Fault::Resharded]
            }
            // A process goes on to members without a proxy.
            Self::Etcd => vec![Fault::Delayed, Fault::Severed, Fault::Frozen],
            Self::Redis
            | Self::Postgres
            | Self::Pgbouncer
            | Self::Firestore
            | Self::ObjectStore => {
                vec![Fault::Cut, Fault::Delayed, Fault::Severed, Fault::Frozen, Fault::Late]
            }
        });
        faults.extend(match self {
            Self::Redis | Self::Postgres => vec![Fault::ServerRestarted],
            Self::Etcd => vec![Fault::ServerRestarted, Fault::FailedOver],
            Self::Pgbouncer => vec![Fault::ServerRestarted, Fault::PoolerRestarted],
            Self::RedisCluster | Self::Firestore | Self::Sqlite | Self::ObjectStore => Vec::new(),
        });
        faults
    }

    /// The events of which a run of this length has too few to prove anything.
    pub(crate) fn missing(self, ran: Duration, counts: &Counts) -> Vec<String> {
        let seconds = ran.as_secs();
        // A busy machine of two cores reaches these numbers many times over.
        let floors = Floors {
            answered: 10 * seconds,
            granted: 2 * seconds,
            written: seconds,
            rejected: 1 + seconds / 60,
            faults: self.faults().into_iter().map(|fault| (fault, 1)).collect(),
        };
        floors.missing(counts)
    }
}
