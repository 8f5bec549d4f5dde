//! The stores: executable twins of the real ones.

mod firestore;
mod postgres;

use syncguard_core::Key;
use syncguard_history::Random;

use crate::protocol::{Reply, Request};
use crate::redis;

pub(crate) use self::firestore::Firestore;
pub(crate) use self::postgres::Postgres;

/// A store that carries a request out in one step.
pub(crate) trait Atomic: Send {
    /// Carries out a request about locks at this time, in milliseconds. Returns the key that has become free.
    fn carry_out(&mut self, now: u64, request: &Request) -> (Reply, Option<Key>);

    /// The number of live locks.
    fn live(&mut self, now: u64) -> u64;
}

/// The server at the end of the network.
pub(crate) enum Server {
    /// One step for each request.
    Atomic(Box<dyn Atomic>),
    /// One step for each command. True if commands may be sent to two of its nodes.
    Redis { server: Box<redis::Server>, is_clustered: bool },
    /// Several steps for each statement.
    Postgres(Box<Postgres>),
}

/// Why a server refuses writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is a replica now.
    Replica,
    /// Its disk or its memory is full.
    Full,
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
        matches!(self, Self::Redis { is_clustered: true, .. })
    }

    /// Begins a statement, if this store has statements.
    pub(crate) fn begins(&mut self, call: u64, member: usize, request: Request) -> Option<usize> {
        match self {
            Self::Atomic(_) | Self::Redis { .. } => None,
            Self::Postgres(server) => Some(server.begins(call, member, request)),
        }
    }

    pub(crate) fn carry_out(&mut self, now: u64, request: &Request) -> (Reply, Option<Key>) {
        match self {
            Self::Atomic(store) => store.carry_out(now, request),
            Self::Redis { .. } | Self::Postgres(_) => (Reply::Cancelled, None),
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
            Self::Atomic(_) | Self::Redis { .. } => (None, Done::default(), None),
            Self::Postgres(server) => server.goes(statement, now, random),
        }
    }

    /// Cancels the work of a call.
    pub(crate) fn cancels(&mut self, call: u64) -> Done {
        match self {
            Self::Atomic(_) | Self::Redis { .. } => Done::default(),
            Self::Postgres(server) => server.cancels(call),
        }
    }

    pub(crate) fn restarts(&mut self) {
        match self {
            Self::Atomic(_) => {}
            Self::Redis { server, .. } => server.restarts(),
            Self::Postgres(server) => server.restarts(),
        }
    }

    /// Refuses all writes from now on, or takes them again.
    pub(crate) fn refuses(&mut self, refusal: Option<Refusal>) {
        if let Self::Redis { server, .. } = self {
            server.refuses(refusal);
        }
    }

    /// A connection that hears of changes is gone.
    pub(crate) fn closes(&mut self, connection: u64) {
        if let Self::Redis { server, .. } = self {
            server.closes(connection);
        }
    }

    pub(crate) fn live(&mut self, now: u64) -> u64 {
        match self {
            Self::Atomic(store) => store.live(now),
            Self::Redis { server, .. } => server.live(1000 * now),
            Self::Postgres(server) => server.live(now),
        }
    }
}
