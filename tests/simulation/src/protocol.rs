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
        // The script, one key, and the arguments of extend.lua.
        matches!(self, Self::Redis { words, .. } if words.len() == 2 + 1 + 4)
    }

    pub(crate) fn is_release(&self) -> bool {
        // The script, one key or two, and the arguments of release.lua.
        matches!(self, Self::Redis { words, .. } if matches!(words.len(), 5 | 6))
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
