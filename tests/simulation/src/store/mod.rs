//! The stores: executable twins of what the real ones carry out.

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
    /// Carries out a request about locks at this time, in milliseconds. Names the key that has become free.
    fn carry_out(&mut self, now: u64, request: &Request) -> (Reply, Option<Key>);

    /// How many locks are live.
    fn live(&mut self, now: u64) -> u64;
}

/// The server at the end of the network.
pub(crate) enum Server {
    /// One step a request; and whether requests may be sent to two of its nodes.
    Atomic { store: Box<dyn Atomic>, is_clustered: bool },
    /// A statement takes several.
    Postgres(Box<Postgres>),
}

/// What a step of a statement has brought about.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// For whom: the call and its member.
    pub(crate) replies: Vec<(u64, usize, Reply)>,
    /// Statements that need not wait any more.
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

    /// A statement takes a step, unless it has ended. Says after how many microseconds it takes the next one.
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

    /// What a call has begun is to end.
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
