//! The connection between a backend and its store, on which requests can be held back.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use syncguard_conformance::RequestGate;
use syncguard_core::CancellationToken;

/// The store's work for one request. It answers by itself, if its caller still waits.
pub(crate) type Request = Box<dyn FnOnce() + Send>;

#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Mutex<Connection>>);

#[derive(Default)]
struct Connection {
    /// True if the next request and all requests behind it are held back.
    is_marked: bool,
    held: Vec<Request>,
    /// The held requests of connections that the sender has lost.
    left: Vec<Request>,
    gone: CancellationToken,
}

impl Gate {
    /// Sends a request. The token fires if the connection is lost before the answer.
    pub(crate) fn send(&self, request: Request) -> CancellationToken {
        let mut connection = self.connection();
        let gone = connection.gone.clone();
        if mem::take(&mut connection.is_marked) || !connection.held.is_empty() {
            connection.held.push(request);
        } else {
            drop(connection);
            request();
        }
        gone
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap()
    }
}

impl RequestGate for Gate {
    fn hold(&self) {
        self.connection().is_marked = true;
    }

    fn holds(&self) -> bool {
        let connection = self.connection();
        !connection.held.is_empty() || !connection.left.is_empty()
    }

    fn cut(&self) {
        let mut connection = self.connection();
        let held = mem::take(&mut connection.held);
        if !held.is_empty() {
            connection.left.extend(held);
            mem::take(&mut connection.gone).cancel();
        }
    }

    fn deliver(&self) {
        let mut connection = self.connection();
        connection.is_marked = false;
        let left = mem::take(&mut connection.left);
        let held = mem::take(&mut connection.held);
        drop(connection);
        left.into_iter().chain(held).for_each(|request| request());
    }
}
