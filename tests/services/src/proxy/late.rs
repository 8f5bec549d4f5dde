//! Requests that arrive late: after their sender gave up, or after a later request that overtook them.

use std::sync::mpsc::channel;

use super::FaultProxy;

/// The rule for holding bytes of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hold {
    /// Holds nothing more. Bytes that are held already stay held.
    #[default]
    None,
    /// Holds the connections that are open now, each from its next bytes. Later connections are not held.
    Open,
    /// Holds the connections that are open now, each from its first bytes after this many more [flights](super::Counters)
    /// over all connections.
    After(u64),
}

impl FaultProxy {
    /// From now on, holds bytes of clients until [`deliver`](Self::deliver). The last call counts, for all
    /// connections without held bytes.
    ///
    /// A connection with held bytes stays open towards the server when its client closes or resets it, and the bytes
    /// are kept.
    ///
    /// All bytes of the client are held, including its cancellation: HTTP/2 then resets the stream, and the server
    /// cancels the request when both are delivered. Call [`sever_clients`](Self::sever_clients) before that to keep
    /// only the request.
    ///
    /// The proxy knows nothing of requests: the start of a session are bytes, too. Only HTTP/2's own frames are not held,
    /// unless behind others.
    ///
    /// A connection is open when the proxy has accepted it. A client can be sure of that only
    /// after it got an answer.
    pub fn hold(&self, which: Hold) {
        let flights = self.counters().flights;
        let from = match which {
            Hold::None => None,
            Hold::Open => Some(0),
            Hold::After(more) => Some(flights + more + 1),
        };
        for connection in self.shared.open_connections() {
            connection.hold_from(from);
        }
    }

    /// Sends all held bytes to the server, each over its own connection, and ends the hold of these connections.
    /// Returns after the write, with the number of connections.
    ///
    /// If the client has gone, the server reads the end a second after the delivered bytes, and its replies are
    /// swallowed. The order of the connections is not defined.
    pub fn deliver(&self) -> usize {
        let (written, receipts) = channel();
        for connection in self.shared.open_connections() {
            connection.deliver(&written);
        }
        drop(written);
        receipts.iter().count()
    }

    /// The number of connections with held bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.open_connections().iter().filter(|connection| connection.holds()).count()
    }

    /// Returns whether these bytes are among the held bytes of a connection: the proxy knows nothing of requests, and
    /// this tells which of them it holds.
    ///
    /// # Panics
    ///
    /// If there are no bytes to look for.
    #[must_use]
    pub fn holds_bytes(&self, bytes: &[u8]) -> bool {
        self.shared.open_connections().iter().any(|connection| connection.holds_bytes(bytes))
    }

    /// Closes the client's side of all connections with held bytes, and keeps the bytes.
    pub fn sever_clients(&self) {
        for connection in self.shared.open_connections() {
            if connection.holds() {
                connection.close_client();
            }
        }
    }
}
