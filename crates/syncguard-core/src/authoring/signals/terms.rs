//! The terms of a session: its limits, its changes, its end, and the state of a lock.

use std::fmt;
use std::time::Duration;

use crate::contract::key_watch::KeyWatch;

/// The longest times of the parts of a session.
#[derive(Clone, Copy, Debug)]
pub struct SignalLimits {
    /// From the beginning of a session to its first call of [`Subscriptions::next`](super::Subscriptions::next).
    pub open: Duration,
    /// From a call of [`Subscriptions::next`](super::Subscriptions::next) that returned changes to the next call.
    pub step: Duration,
    /// How long a waiter waits for the store's confirmation. After that the waiter polls, and asks again later.
    pub confirm: Duration,
}

/// The end of a session that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalEnd {
    /// The subscriptions have ended, or the store has closed the connection, as it does from time to time.
    Closed,
    /// This connection has no signals and never will: the hub opens no further session.
    Unsupported,
}

/// The state of a record's lock, as the store reports it after the session has subscribed to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockSeen {
    /// The lock is free, or its state is not known.
    MayBeFree,
    /// The lock is held: the waiter need not ask before a signal.
    Held,
    /// The lock is held, and a client that only polls has written its record: see
    /// [`KeyWatch::is_polled`](crate::contract::KeyWatch::is_polled).
    Polled,
}

impl LockSeen {
    /// `Some` for a lock that is held, with its [`is_polled`](crate::Contention::is_polled); `None` if there is no lock or
    /// its state is not known.
    #[must_use]
    pub const fn of(is_polled: Option<bool>) -> Self {
        match is_polled {
            None => Self::MayBeFree,
            Some(false) => Self::Held,
            Some(true) => Self::Polled,
        }
    }

    /// The watch with this state of the lock. A [`SignalHub`](super::SignalHub) adds it by itself.
    pub fn add_to(self, watch: KeyWatch) -> KeyWatch {
        match self {
            Self::MayBeFree => watch,
            Self::Held => watch.with_locked(),
            Self::Polled => watch.with_polled(),
        }
    }
}

/// The changes of a session's subscriptions.
#[derive(Default)]
pub struct Changes {
    /// Names of records to subscribe to. The session must [confirm](super::Subscriptions::confirm) or
    /// [refuse](super::Subscriptions::refuse) each of them, even if it has subscribed to the record before.
    pub subscribe: Vec<String>,
    /// Names of records that nobody watches any more. Unsubscribe from them before subscribing to the others.
    pub unsubscribe: Vec<String>,
}

impl Changes {
    /// True if there are no changes: the session must ask the store for a sign of life.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.subscribe.is_empty() && self.unsubscribe.is_empty()
    }
}

/// Shows no names.
impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("subscribe", &self.subscribe.len())
            .field("unsubscribe", &self.unsubscribe.len())
            .finish()
    }
}
