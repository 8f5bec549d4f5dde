//! Connections whose statement was given up.
//!
//! The server does not notice a closed socket while a session waits for a table or for a standby. If the pool
//! replaced each closed connection, sessions would pile up until the server has no room for other clients. So
//! the connection keeps its place in the pool, the statement is cancelled, and the connection is replaced once the
//! server has answered. Only two connections at a time may leave the pool without an answer.

mod answer;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{Client, ClientWrapper, Object};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use self::answer::{End, answer};
use crate::cancel_request::CancelRequests;

/// How many connections may be set aside: out of the pool, with a session that may still be in the server.
const ASIDE: usize = 2;

/// How long a connection that does not answer keeps its place in the pool at least: a request that
/// takes as long as it may, and a second for the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long to wait for a connection that was set aside. After that its session is taken for gone, so that a
/// connection that died without a word does not keep its place for ever.
const LONGEST_ASIDE: Duration = Duration::from_secs(5 * 60);

/// The time that a session has to end after its connection was closed.
const SESSION_END: Duration = Duration::from_millis(250);

/// Cancels statements, and waits for their answers.
pub(crate) struct BusyConnections {
    /// `None`: statements cannot be cancelled, and end when the server has carried them out.
    cancel: Option<CancelRequests>,
    aside: Arc<Semaphore>,
    /// Connections that have a place in the pool and wait for an answer.
    waiting: AtomicUsize,
}

impl BusyConnections {
    pub(crate) fn new(cancel: Option<CancelRequests>) -> Self {
        Self { cancel, aside: Arc::new(Semaphore::new(ASIDE)), waiting: AtomicUsize::new(0) }
    }

    /// How many connections of the pool wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Takes over a connection and the turn of its user, in the background. Without a runtime the connection
    /// is closed.
    pub(crate) fn take_over(self: &Arc<Self>, client: Client, turn: Option<OwnedSemaphorePermit>) {
        let busy = Busy::new(client, turn, Arc::clone(self));
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(run(busy));
        }
    }

    /// A place outside of the pool, for a connection that has not answered for too long.
    async fn place(&self) -> OwnedSemaphorePermit {
        sleep(PATIENCE).await;
        match Arc::clone(&self.aside).acquire_owned().await {
            Ok(place) => place,
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }
}

async fn run(busy: Busy) {
    let all = Arc::clone(&busy.all);
    let Some(client) = &busy.client else { return };
    let place = tokio::select! {
        biased;
        end = answer(client, all.cancel.as_ref()) => {
            match end {
                End::Clean => busy.give_back(),
                End::Cancelled => busy.close().await,
                End::Lost => {}
            }
            return;
        }
        place = all.place() => place,
    };
    tracing::warn!(
        backend = "postgres",
        "a connection does not answer; another one may take its place in the pool"
    );
    if let Some(client) = busy.set_aside() {
        let _ = timeout(LONGEST_ASIDE, answer(&client, all.cancel.as_ref())).await;
    }
    drop(place);
}

/// A connection of the pool in the middle of a statement, with the turn of its user. Dropping it closes the
/// connection.
struct Busy {
    client: Option<Client>,
    turn: Option<OwnedSemaphorePermit>,
    all: Arc<BusyConnections>,
}

impl Busy {
    fn new(client: Client, turn: Option<OwnedSemaphorePermit>, all: Arc<BusyConnections>) -> Self {
        all.waiting.fetch_add(1, Ordering::Relaxed);
        Self { client: Some(client), turn, all }
    }

    /// Gives the connection back to the pool.
    fn give_back(mut self) {
        drop(self.client.take());
    }

    /// Closes the connection, and keeps the turn until the session should have ended, so that no more
    /// sessions are open than there are turns.
    async fn close(mut self) {
        drop(self.client.take().map(Object::take));
        sleep(SESSION_END).await;
    }

    /// Takes the connection out of the pool, still open.
    fn set_aside(mut self) -> Option<ClientWrapper> {
        self.client.take().map(Object::take)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
        // After the connection: the next user of the turn finds one in the pool.
        drop(self.turn.take());
        self.all.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
