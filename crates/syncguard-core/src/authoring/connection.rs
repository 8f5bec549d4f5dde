//! The connection that serves all calls of a backend, until another one takes its place.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// For authors of backends: the connection that the clones of a backend share. Calls go through `S`, whose clones share the
/// connection.
pub struct Connection<S> {
    /// The connection, and how many there were before.
    current: watch::Sender<(S, u64)>,
    /// How many answers have come.
    heard: AtomicU64,
}

/// A [`Connection`] for one call.
#[derive(Debug)]
pub struct Loan<S> {
    /// Makes the call.
    pub service: S,
    number: u64,
    heard: u64,
}

impl<S: Clone> Connection<S> {
    /// The first connection.
    #[must_use]
    pub fn new(service: S) -> Self {
        Self { current: watch::Sender::new((service, 0)), heard: AtomicU64::new(0) }
    }

    /// The connection for the next call.
    #[must_use]
    pub fn lend(&self) -> Loan<S> {
        let (service, number) = self.current.borrow().clone();
        Loan { service, number, heard: self.heard() }
    }

    /// Notes an answer.
    pub fn hears(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    /// How many answers have come.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// True if no call has got an answer since this loan.
    #[must_use]
    pub fn is_silent(&self, loan: &Loan<S>) -> bool {
        self.heard() == loan.heard
    }

    /// True if no other connection has taken the place of this loan's.
    #[must_use]
    pub fn is_current(&self, loan: &Loan<S>) -> bool {
        self.current.borrow().1 == loan.number
    }

    /// Puts this connection in the place of the loan's, if no other one is there already. Calls on the old one go on.
    pub fn replace(&self, loan: &Loan<S>, service: S) {
        self.current.send_if_modified(|current| {
            let is_current = current.1 == loan.number;
            if is_current {
                *current = (service, loan.number + 1);
            }
            is_current
        });
    }

    /// The current connection, and the news of others that take its place.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<(S, u64)> {
        self.current.subscribe()
    }
}

impl<S> fmt::Debug for Connection<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("heard", &self.heard).finish_non_exhaustive()
    }
}
