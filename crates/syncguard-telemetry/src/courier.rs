//! Whoever brings records to the callbacks.
//!
//! A thread of its queue's own, and no task or blocking thread of a runtime: the end of a runtime waits for
//! such a thread, and the end of `main` for the runtime, so a callback that blocks for ever would keep
//! the process alive. For this one nobody waits. The first record starts it, it sleeps while there is
//! none, and it ends when that has lasted, or when nobody has the queue any more.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::inbox::{Duty, Errand, Inbox};
use crate::record::Record;
use syncguard_core::authoring::contain;

/// How long a thread waits for the next record. To start another one costs some ten microseconds.
const IDLE: Duration = Duration::from_secs(10);

/// The courier while it works.
pub(crate) struct Courier {
    inbox: Arc<Inbox>,
    errand: Errand,
    on_duty: bool,
}

impl Courier {
    pub(crate) fn new(inbox: Arc<Inbox>, errand: Errand) -> Self {
        Self { inbox, errand, on_duty: true }
    }

    /// Delivers on a new thread. If the system has none to give, the next event tries again.
    pub(crate) fn start(self) {
        let inbox = Arc::clone(&self.inbox);
        let _ = thread::Builder::new().name("syncguard-telemetry".to_owned()).spawn(move || {
            self.deliver();
            while let Some(errand) = inbox.next_errand(IDLE) {
                Self::new(Arc::clone(&inbox), errand).deliver();
            }
        });
    }

    fn deliver(mut self) {
        let runtime = self.errand.runtime.take();
        let _context = runtime.as_ref().map(Handle::enter);
        let mut delivered = 0;
        while let Some(record) = self.next(delivered) {
            self.errand.callbacks.deliver(record);
            delivered = 1;
        }
        // This may be the last owner of the callbacks. Their drop is foreign code and can panic.
        contain(move || drop(self));
    }

    /// Notes what has been delivered, and takes the next record.
    fn next(&mut self, delivered: u64) -> Option<Record> {
        let mut state = self.inbox.lock();
        state.delivered += delivered;
        let next = state.waiting.pop_front();
        if next.is_none() {
            // Under the same lock under which the inbox was found empty, so that no record stays
            // behind.
            state.courier = if state.is_closed { Duty::Absent } else { Duty::Asleep };
            self.on_duty = false;
        }
        drop(state);
        self.inbox.progress.notify_waiters();
        next
    }
}

impl Drop for Courier {
    /// One that never got to its work makes room for another.
    fn drop(&mut self) {
        if self.on_duty {
            self.inbox.lock().courier = Duty::Absent;
            self.inbox.progress.notify_waiters();
        }
    }
}
