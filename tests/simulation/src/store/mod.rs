//! The stores: executable twins of the real ones.

mod firestore;
mod memory;
mod postgres;
mod redis;

use syncguard_core::Key;
use syncguard_history::Random;

use crate::protocol::{Reply, Request};

pub(crate) use self::firestore::Firestore;
pub(crate) use self::memory::Memory;
pub(crate) use self::postgres::Postgres;
pub(crate) use self::redis::Redis;

/// A store that carries a request out in one step.
pub(crate) trait Atomic: Send {
    /// Carries out a request about locks at this time, in milliseconds. Returns the key that has become free.
    fn carry_out(&mut self, now: u64, request: &Request) -> (Reply, Option<Key>);

    /// The number of live locks.
    fn live(&mut self, now: u64) -> u64;
}

/// The server at the end of the network.
pub(crate) enum Server {
    /// One step for each request. True if requests may be sent to two of its nodes.
    Atomic { store: Box<dyn Atomic>, is_clustered: bool },
    /// Several steps for each statement.
    Postgres(Box<Postgres>),
}

/// The results of a step of a statement.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// The call and its member.
    pub(crate) replies: Vec<(u64, usize, Reply)>,
    /// Statements that can go on.
    pub(crate) woken: Vec<usize>,
}

impl Server {
    pub(crate) fn is_clustered(&self) -> bool {
        matches!(self, Self::Atomic { is_clustered: true, .. })
    }

    /// Begins a statement, if this store has statements.
    pub(crate) fn begins(&mut self, call: u64, member: usize, request: Request) -> Option<usize> {
        match self {
            Self::Atomic { .. } => None,
            Self::Postgres(server) => Some(server.begins(call, member, request)),
        }
    }

    pub(crate) fn carry_out(&mut self, now: u64, request: &Request) -> (Reply, Option<Key>) {
        match self {
            Self::Atomic { store, .. } => store.carry_out(now, request),
            Self::Postgres(_) => (Reply::Cancelled, None),
        }
    }

    /// Takes a step of a statement, unless it has ended. Returns the microseconds until its next step.
    pub(crate) fn goes(
        &mut self,
        statement: usize,
        now: u64,
        random: &mut Random,
    ) -> (Option<u64>, Done, Option<Key>) {
        match self {
            Self::Atomic { .. } => (None, Done::default(), None),
            Self::Postgres(server) => server.goes(statement, now, random),
        }
    }

    /// Cancels the work of a call.
    pub(crate) fn cancels(&mut self, call: u64) -> Done {
        match self {
            Self::Atomic { .. } => Done::default(),
            Self::Postgres(server) => server.cancels(call),
        }
    }

    pub(crate) fn restarts(&mut self) {
        if let Self::Postgres(server) = self {
            server.restarts();
        }
    }

    pub(crate) fn live(&mut self, now: u64) -> u64 {
        match self {
            Self::Atomic { store, .. } => store.live(now),
            Self::Postgres(server) => server.live(now),
        }
    }
}
