//! Signals: how a backend tells its waiters of releases by other processes.
//!
//! A [`SignalHub`] does what is the same on every store. It opens a session for the first watch and closes the
//! session after the last one. It lets watches of a record share a subscription, hands each watch out once the store has
//! confirmed, and notices a session that is stuck. It rests after a session that failed, longer each time, and says
//! in the log once that signals are not heard, and once that they are heard again.
//!
//! A backend writes one session: an async function that connects, and then does what the hub's [`Subscriptions`] say
//! until the connection is lost or the subscriptions end. The guide's page for authors has an example.
//!
//! A signal is a hint: it may be lost, late or doubled, and costs nothing but time then.

mod board;
mod hub;
mod session;

use std::fmt;
use std::time::Duration;

use crate::contract::KeyWatch;

pub use self::hub::SignalHub;
pub use self::session::Subscriptions;

/// How long the parts of a session may take.
#[derive(Clone, Copy, Debug)]
pub struct SignalLimits {
    /// From the beginning of a session to its first call of [`Subscriptions::next`].
    pub open: Duration,
    /// From one call of [`Subscriptions::next`] that gave something to do, to the next call.
    pub step: Duration,
    /// How long a waiter waits for the store's confirmation. After that it polls, and asks again later.
    pub confirm: Duration,
}

/// How a session ends that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalEnd {
    /// The subscriptions have ended, or the store has closed the connection as it does from time to time.
    Closed,
    /// There are no signals over this connection, and never will be: it is not asked for again.
    Unsupported,
}

/// The state of the lock of a record, as the store tells it after the session has subscribed to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockSeen {
    /// It is free, or nobody knows.
    MayBeFree,
    /// It is held: there is no need to ask before a signal.
    Held,
    /// It is held by a client that only polls: see
    /// [`KeyWatch::that_is_locked_by_a_poller`](crate::contract::KeyWatch::that_is_locked_by_a_poller).
    HeldByPoller,
}

impl LockSeen {
    /// A lock whose holder polls or does not; `None` where there is no lock, or nobody knows.
    #[must_use]
    pub const fn of(polls: Option<bool>) -> Self {
        match polls {
            None => Self::MayBeFree,
            Some(false) => Self::Held,
            Some(true) => Self::HeldByPoller,
        }
    }

    /// The watch, which then says this of the lock. A [`SignalHub`] does so by itself.
    pub fn add_to(self, watch: KeyWatch) -> KeyWatch {
        match self {
            Self::MayBeFree => watch,
            Self::Held => watch.that_is_locked(),
            Self::HeldByPoller => watch.that_is_locked_by_a_poller(),
        }
    }
}

/// The records that a session is to ask the store for.
#[derive(Default)]
pub struct Changes {
    /// Names of records to subscribe to. Each is to be [confirmed](Subscriptions::confirm) or
    /// [refused](Subscriptions::refuse), also if the session has subscribed to it before.
    pub subscribe: Vec<String>,
    /// Names of records that nobody watches any more. They come before those to subscribe to.
    pub unsubscribe: Vec<String>,
}

impl Changes {
    /// Whether there are none: the store is to be asked for a sign of life.
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
