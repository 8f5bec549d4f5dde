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

use crate::queue::{Inbox, Queue};
use crate::record::Record;
use syncguard_core::authoring::contain;

/// How long a thread waits for the next record. To start another one costs some ten microseconds.
const IDLE: Duration = Duration::from_secs(10);

/// The courier of a queue: there is one at most, so events keep their order.
#[derive(Default)]
pub(crate) enum Duty {
    /// There is no thread.
    #[default]
    Absent,
    /// It delivers.
    Working,
    /// It sleeps, and holds nothing of the queue but its inbox: callbacks that nobody needs any more
    /// are dropped at once.
    Asleep,
    /// It is to wake up, with this.
    Called(Courier),
}

/// One errand: everything that is waiting.
pub(crate) struct Courier {
    queue: Arc<Queue>,
    /// The runtime of the operation that called, for callbacks that want one.
    runtime: Option<Handle>,
    on_duty: bool,
}

impl Courier {
    pub(crate) fn new(queue: Arc<Queue>) -> Self {
        Self { queue, runtime: Handle::try_current().ok(), on_duty: true }
    }

    /// Delivers on a new thread. If the system has none to give, the next event tries again.
    pub(crate) fn start(self) {
        let inbox = Arc::clone(self.queue.inbox());
        let _ = thread::Builder::new().name("syncguard-telemetry".to_owned()).spawn(move || {
            let mut errand = Some(self);
            while let Some(courier) = errand {
                courier.deliver();
                errand = inbox.next_errand();
            }
        });
    }

    fn deliver(mut self) {
        let runtime = self.runtime.take();
        let _context = runtime.as_ref().map(Handle::enter);
        let mut delivered = 0;
        while let Some(record) = self.next(delivered) {
            self.queue.deliver(record);
            delivered = 1;
        }
        // With the last handle on the queue go the callbacks, which are foreign to their end.
        contain(move || drop(self));
    }

    /// Notes what has been delivered, and takes the next record.
    fn next(&mut self, delivered: u64) -> Option<Record> {
        let mut state = self.queue.inbox().lock();
        state.delivered += delivered;
        let next = state.waiting.pop_front();
        if next.is_none() {
            // Under the same lock under which the queue was found empty, so that no record stays
            // behind.
            state.courier = Duty::Asleep;
            self.on_duty = false;
        }
        drop(state);
        self.queue.notify_progress();
        next
    }
}

impl Drop for Courier {
    /// One that never got to its work makes room for another.
    fn drop(&mut self) {
        if self.on_duty {
            self.queue.inbox().lock().courier = Duty::Absent;
            self.queue.notify_progress();
        }
    }
}

impl Inbox {
    /// Sleeps until there is something to deliver; `None` if the thread should end.
    fn next_errand(&self) -> Option<Courier> {
        let mut state = self.sleep(IDLE);
        match std::mem::take(&mut state.courier) {
            Duty::Called(courier) => {
                state.courier = Duty::Working;
                Some(courier)
            }
            _ => None,
        }
    }
}
