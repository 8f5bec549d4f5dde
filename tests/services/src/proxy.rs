//! A TCP proxy that breaks connections between a client and its server, and counts their bytes.

mod connection;
mod faults;
mod gate;
mod late;

pub use faults::{Counters, ReplyCut};
pub use late::Hold;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::ports;
use connection::Connection;
use faults::Faults;

/// Forwards connections on a port of its own to `upstream`. Faults can be set and lifted while connections are open.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Mutex<Option<Acceptor>>,
}

impl FaultProxy {
    /// Starts a faultless proxy to the server on port `upstream` of 127.0.0.1.
    pub fn start(upstream: u16) -> Result<Self> {
        let proxy = Self {
            port: ports::free()?,
            shared: Arc::new(Shared {
                upstream: AtomicU16::new(upstream),
                faults: Mutex::default(),
                counters: Mutex::default(),
                connections: Mutex::default(),
            }),
            acceptor: Mutex::default(),
        };
        proxy.accept()?;
        Ok(proxy)
    }

    /// The port on 127.0.0.1 for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Delays each byte by this much. Bytes that are sent together arrive together.
    pub fn set_latency(&self, to_server: Duration, to_client: Duration) {
        let mut faults = lock(&self.shared.faults);
        faults.to_server = to_server;
        faults.to_client = to_client;
    }

    /// Cuts connections within the server's replies.
    ///
    /// A reply is all that the server sends until the client sends again. The server has sent the reply, so it has
    /// carried out the request, even if the client sees not one byte of the reply.
    pub fn set_reply_cut(&self, cut: ReplyCut) {
        lock(&self.shared.faults).cut = cut;
    }

    /// Acts like a proxy that does not take a command: ends the connection of a client that sends this text in one piece.
    pub fn end_at(&self, text: &str) {
        lock(&self.shared.faults).ends_at = text.into();
    }

    /// Swallows all bytes from now on, in both directions. Connections stay open, and new ones are accepted.
    ///
    /// Swallowed bytes stay lost after `freeze(false)`.
    pub fn freeze(&self, on: bool) {
        lock(&self.shared.faults).frozen = on;
    }

    /// Acts like a firewall that drops the packets of the open connections: they stay open, and their bytes are
    /// swallowed for ever. New connections work.
    pub fn silence(&self) {
        for connection in self.shared.open_connections() {
            connection.silence();
        }
    }

    /// Accepts connections, again after [`refuse`](Self::refuse).
    pub fn accept(&self) -> Result<()> {
        let mut acceptor = lock(&self.acceptor);
        if acceptor.is_none() {
            *acceptor = Some(Acceptor::start(self.port, Arc::clone(&self.shared))?);
        }
        Ok(())
    }

    /// Refuses new connections, like a port without a listener. Open connections go on.
    pub fn refuse(&self) {
        if let Some(acceptor) = lock(&self.acceptor).take() {
            acceptor.stop(self.port);
        }
    }

    /// Leads new connections to the server on this port of 127.0.0.1, as a name that has moved. Open connections stay.
    pub fn lead_to(&self, upstream: u16) {
        self.shared.upstream.store(upstream, Ordering::SeqCst);
    }

    /// Closes all open connections on both sides. Held bytes are lost.
    pub fn sever(&self) {
        for connection in self.shared.open_connections() {
            connection.close();
        }
    }

    /// Acts like a firewall that forgets connections: each open connection is closed when its client sends again, and
    /// the server gets nothing of that.
    pub fn forget(&self) {
        for connection in self.shared.open_connections() {
            connection.forget();
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        *lock(&self.shared.counters)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.refuse();
        self.sever();
    }
}

/// The state that the threads of a proxy share.
#[derive(Debug)]
struct Shared {
    /// The port of the server for new connections.
    upstream: AtomicU16,
    faults: Mutex<Faults>,
    counters: Mutex<Counters>,
    connections: Mutex<Vec<Weak<Connection>>>,
}

impl Shared {
    fn upstream(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.upstream.load(Ordering::SeqCst)).into()
    }

    fn open_connections(&self) -> Vec<Arc<Connection>> {
        lock(&self.connections).iter().filter_map(Weak::upgrade).collect()
    }

    fn register(&self, connection: &Arc<Connection>) {
        let mut connections = lock(&self.connections);
        connections.retain(|known| known.strong_count() > 0);
        connections.push(Arc::downgrade(connection));
    }
}

/// Runs on the thread that listens.
#[derive(Debug)]
struct Acceptor {
    running: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Acceptor {
    fn start(port: u16, shared: Arc<Shared>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("the proxy cannot listen on port {port}"))?;
        let running = Arc::new(AtomicBool::new(true));
        let go_on = Arc::clone(&running);
        let thread = thread::spawn(move || {
            for client in listener.incoming() {
                if !go_on.load(Ordering::SeqCst) {
                    break;
                }
                // If the upstream is down, the client's connection is closed, and nothing else needs to know.
                let _ = client.and_then(|client| Connection::open(client, &shared));
            }
        });
        Ok(Self { running, thread })
    }

    fn stop(self, port: u16) {
        self.running.store(false, Ordering::SeqCst);
        // Wakes the thread, which waits for a connection.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        let _ = self.thread.join();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
