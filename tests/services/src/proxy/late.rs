//! Requests that arrive late: after their sender gave up, or after a later one that overtook them.

use std::sync::mpsc::channel;

use super::{FaultProxy, lock};

/// What is kept back of what clients send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hold {
    /// Nothing more; what is held already stays held.
    #[default]
    None,
    /// The first connection that sends something is held from then on, and no other.
    Next,
    /// The connections that are open now are held, each from the next it sends; later ones are not.
    Open,
}

impl FaultProxy {
    /// From now on, keeps back what clients send until [`deliver`](Self::deliver). The last call
    /// counts, for all connections of which nothing is held yet.
    ///
    /// A connection of which something is held stays open towards the server when its client closes
    /// or resets it, and the bytes are kept.
    ///
    /// All a client sends is held, also that it gives up: HTTP/2 then resets the stream, and the server
    /// cancels the request when both are delivered. [`sever_clients`](Self::sever_clients) before that
    /// keeps the request alone.
    ///
    /// The proxy knows no requests: an acknowledgement of HTTP/2 or the start of a session are
    /// something sent, too.
    ///
    /// With [`Hold::Open`], a connection is open when the proxy has accepted it. A client can be sure
    /// of that only once it got an answer.
    pub fn hold(&self, which: Hold) {
        let mut faults = lock(&self.shared.faults);
        faults.hold_next = which == Hold::Next;
        for connection in self.shared.open_connections() {
            connection.mark(which == Hold::Open);
        }
    }

    /// Sends all that is held to the server, each over the connection it was meant for, and lifts the
    /// hold of these connections. Returns once it is written, with the number of connections it was
    /// written to.
    ///
    /// Where the client has gone, the server reads the end a second after what it is delivered, and
    /// its replies are swallowed. In which order connections are written to is not defined.
    pub fn deliver(&self) -> usize {
        let (written, receipts) = channel();
        for connection in self.shared.open_connections() {
            connection.deliver(&written);
        }
        drop(written);
        receipts.iter().count()
    }

    /// The number of connections of which something is held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.open_connections().iter().filter(|connection| connection.holds()).count()
    }

    /// Closes the client's side of all connections of which something is held, and keeps that.
    pub fn sever_clients(&self) {
        for connection in self.shared.open_connections() {
            if connection.holds() {
                connection.close_client();
            }
        }
    }
}
