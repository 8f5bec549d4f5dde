//! The seam to the driver: the ways to servers, over fred or, in tests, to simulated ones.

#![allow(
    unreachable_pub,
    missing_debug_implementations,
    reason = "the simulation implements the traits"
)]

use std::time::Duration;

use fred::error::Error as DriverError;
use fred::types::client::Invalidation;
use fred::types::config::Server;
use futures_util::future::BoxFuture;
use syncguard_core::LockError;
use tokio::sync::broadcast::Receiver;

use crate::cluster::Cluster;
use crate::driver::{Answering, Command, Target};

/// A connection that is being opened.
pub type Opening<'a, T> = BoxFuture<'a, Result<T, LockError>>;

/// Opens connections, the first and those in the place of lost ones.
pub trait Servers: Send + Sync {
    /// Opens a connection. The caller bounds the time. The server behind `last` was found to be the wrong one, so the
    /// servers after it come first. With `explain`, the error names a port of the wrong kind.
    fn open<'a>(&'a self, last: Option<&'a Server>, explain: bool)
    -> Opening<'a, Box<dyn Service>>;
}

/// A connection, or on a cluster the connections to its nodes.
pub trait Service: Send + Sync {
    /// The properties that stay the same while the connection lives.
    fn traits(&self) -> Traits;

    /// Returns whether a command can be sent, as far as the driver knows.
    fn is_up(&self) -> bool;

    /// Sends a command, and in the same pipeline `then`, if there is one.
    fn send(&self, target: Target, command: Command, then: Option<Command>) -> Answering<'_>;

    /// Opens another connection to this server, or to this node of the cluster, that hears of changes of what it reads.
    fn listen(&self, node: Option<Server>, command_timeout: Duration) -> Opening<'_, Listening>;

    /// How often nodes of the cluster have come or gone.
    fn changes(&self) -> u64 {
        0
    }

    /// The cluster, if its nodes are known by name.
    fn cluster(&self) -> Option<&Cluster> {
        None
    }

    /// The server of a URL that it leads to.
    fn server(&self) -> Option<&Server> {
        None
    }

    /// Why the last attempt to connect again failed, if the driver connects by itself.
    fn refusal(&self) -> Option<DriverError> {
        None
    }

    /// Connects again, if the driver would also do that for ever after a loss.
    fn reconnecting(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// The properties of a connection that calls have to know.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// It leads to a cluster.
    pub is_clustered: bool,
    /// It may send a script to two nodes of the cluster.
    pub may_send_twice: bool,
    /// It limits each command to the operation timeout.
    pub has_timer: bool,
}

/// A connection that hears of changes.
pub struct Listening {
    /// The connection.
    pub service: Box<dyn Service>,
    /// The changes of what it has read.
    pub changes: Receiver<Invalidation>,
    /// Ends with the connection, and says why.
    pub ended: BoxFuture<'static, LockError>,
}
