//! A view of an election from outside its run.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::term::{TermEnd, TermState};

/// Shows whether this process leads, and lets it resign. Clones share their state.
#[derive(Clone)]
pub struct ElectionHandle(Arc<LeaderStatus>);

impl ElectionHandle {
    pub(super) fn new(status: Arc<LeaderStatus>) -> Self {
        Self(status)
    }

    /// Gives the lead up, if this process leads: see [`Term::resign`](crate::Term::resign).
    pub fn resign(&self) {
        if let Some(term) = self.0.current() {
            term.resigned.cancel();
        }
    }

    /// Returns true while this process leads. This is for display and readiness checks; work asks its
    /// [`Term`](crate::Term) instead.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        *self.0.sender.borrow()
    }

    /// A channel with the value of [`is_leader`](Self::is_leader), to wait for changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.0.sender.subscribe()
    }
}

impl fmt::Debug for ElectionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElectionHandle").field("is_leader", &self.is_leader()).finish()
    }
}

/// The state of an election in this process.
#[derive(Default)]
pub(super) struct LeaderStatus {
    sender: watch::Sender<bool>,
    term: Mutex<Option<Arc<TermState>>>,
}

impl LeaderStatus {
    /// A term begins. It ends when the returned value is dropped, or earlier by [`end_term`](Self::end_term).
    pub(super) fn begin_term(&self, term: &Arc<TermState>) -> ActiveTerm<'_> {
        *self.term.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(term));
        self.sender.send_replace(true);
        ActiveTerm { status: self, term: Arc::clone(term) }
    }

    pub(super) fn end_term(&self) {
        self.sender.send_if_modified(std::mem::take);
        *self.term.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn current(&self) -> Option<Arc<TermState>> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) struct ActiveTerm<'a> {
    status: &'a LeaderStatus,
    term: Arc<TermState>,
}

/// Runs also when the whole run is dropped: tasks that the work has spawned are told then.
impl Drop for ActiveTerm<'_> {
    fn drop(&mut self) {
        self.status.end_term();
        self.term.tell(TermEnd::Resigned);
        self.term.log_end();
    }
}
