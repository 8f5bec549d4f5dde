//! Whether a process leads, and how it is asked to stop.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::term::Ending;

/// An election as others of its process see it. Clones are the same.
#[derive(Clone)]
pub struct ElectionHandle(Arc<Leads>);

impl ElectionHandle {
    pub(super) fn new(leads: Arc<Leads>) -> Self {
        Self(leads)
    }

    /// Gives the lead up, if this process leads: see [`Term::resign`](crate::Term::resign).
    pub fn resign(&self) {
        if let Some(ending) = self.0.current() {
            ending.resign();
        }
    }

    /// Whether this process leads: for display and readiness checks. Work asks its
    /// [`Term`](crate::Term) instead.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        *self.0.sender.borrow()
    }

    /// A channel with the same, to wait for changes.
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

/// Whether a process leads.
#[derive(Default)]
pub(super) struct Leads {
    sender: watch::Sender<bool>,
    term: Mutex<Option<Arc<Ending>>>,
}

impl Leads {
    /// A term begins; it ends when this is dropped, at the latest.
    pub(super) fn begin(&self, ending: &Arc<Ending>) -> Leading<'_> {
        *self.term.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(ending));
        self.sender.send_replace(true);
        Leading { leads: self, ending: Arc::clone(ending) }
    }

    pub(super) fn ends(&self) {
        self.sender.send_if_modified(std::mem::take);
        *self.term.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn current(&self) -> Option<Arc<Ending>> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Somebody leads.
pub(super) struct Leading<'a> {
    leads: &'a Leads,
    ending: Arc<Ending>,
}

/// Also where the run itself is dropped: whatever the work has spawned is told.
impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.leads.ends();
        self.ending.tell(super::TermEnd::Resigned);
    }
}
