//! The messages of the simulated network, beside what streams carry.

use syncguard_redis::fred::types::Value;

use crate::{etcd, firestore, objects, redis};

/// A request.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives for a moment")]
pub(crate) enum Request {
    /// A command of Redis, on the connection of this number.
    Redis {
        connection: u64,
        command: &'static str,
        words: Vec<Value>,
    },
    Firestore(firestore::Call),
    Etcd(etcd::Call),
    Object(objects::Call),
    /// Takes a register with a fence.
    Claim {
        register: usize,
        fence: u64,
    },
    Write {
        register: usize,
        fence: u64,
        value: u64,
    },
}

impl Request {
    /// Returns true if it may change a lock.
    pub(crate) fn is_write(&self) -> bool {
        match self {
            Self::Redis { command, .. } => command.starts_with("EVAL"),
            Self::Firestore(call) => matches!(call, firestore::Call::Commit(_)),
            Self::Etcd(call) => call.is_write(),
            Self::Object(call) => call.is_write(),
            Self::Claim { .. } | Self::Write { .. } => false,
        }
    }

    pub(crate) fn is_extend(&self) -> bool {
        self.of_one_lock() == Some(4) // the arguments of extend.lua
    }

    pub(crate) fn is_release(&self) -> bool {
        matches!(self.of_one_lock(), Some(2 | 3)) // the arguments of release.lua
    }

    /// The number of arguments behind the keys of a script, for the id of one lock and its key if that is known.
    fn of_one_lock(&self) -> Option<usize> {
        let Self::Redis { words, .. } = self else { return None };
        match words.as_slice() {
            [_script, Value::Integer(keys @ (1 | 2)), rest @ ..] => {
                rest.len().checked_sub(usize::try_from(*keys).ok()?)
            }
            _ => None,
        }
    }

    /// The number of the connection that it takes.
    pub(crate) fn connection(&self) -> u64 {
        match self {
            Self::Redis { connection, .. } => *connection,
            _ => 0,
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Reply {
    Redis(redis::Reply),
    Firestore(firestore::Reply),
    Etcd(etcd::Reply),
    Object(objects::Reply),
    Claimed { value: u64 },
    Written,
    Rejected,
}
