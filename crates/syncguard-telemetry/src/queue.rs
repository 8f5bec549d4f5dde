//! The way of an event from an operation to the callbacks.
//!
//! Operations put records into a bounded queue, and a courier delivers them on a thread that nothing
//! waits for: a callback that blocks delays no operation, no runtime's end and no program's end.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncguard_core::observe::Observation;
use tokio::runtime::Handle;

use crate::callbacks::Callbacks;
use crate::courier::Courier;
use crate::inbox::{Duty, Errand, Inbox, State};
use crate::options::TelemetryOptions;
use crate::record::{Record, Scope};

/// How many events found no place, in all queues of the process: for metrics, whose instruments all queues
/// share.
static DROPPED_BY_ALL: AtomicU64 = AtomicU64::new(0);

#[cfg(feature = "opentelemetry")]
pub(crate) fn dropped_by_all() -> u64 {
    DROPPED_BY_ALL.load(Ordering::Relaxed)
}

pub(crate) struct Queue {
    backend: &'static str,
    callbacks: Arc<Callbacks>,
    inbox: Arc<Inbox>,
    dropped: AtomicU64,
}

impl Queue {
    pub(crate) fn new(backend: &'static str, options: TelemetryOptions) -> Self {
        let callbacks = Arc::new(Callbacks::new(options));
        Self { backend, callbacks, inbox: Arc::default(), dropped: AtomicU64::new(0) }
    }

    pub(crate) fn backend(&self) -> &'static str {
        self.backend
    }

    pub(crate) fn has_listeners(&self) -> bool {
        !self.options().sinks.is_empty()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn panics(&self) -> u64 {
        self.callbacks.panics()
    }

    /// Whether every loss is logged by a sink.
    pub(crate) fn logs(&self) -> bool {
        self.options().logs
    }

    /// Hears what happens around locks: counts who waits and holds, and tells of the ends.
    pub(crate) fn observe(&self, observation: &Observation) {
        self.callbacks.count(self.backend, observation);
        if let Some(record) = Record::observed(self.backend, observation) {
            self.push(record);
        }
    }

    /// Takes a record in, or drops it if the queue is full. Never waits for a callback.
    pub(crate) fn push(&self, mut record: Record) {
        if self.options().logs {
            record.scope = Some(Scope::current());
        }
        let mut state = self.inbox.lock();
        if state.waiting.len() < self.options().capacity {
            state.waiting.push_back(record);
            state.taken += 1;
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            DROPPED_BY_ALL.fetch_add(1, Ordering::Relaxed);
        }
        let courier = self.call_courier(&mut state);
        drop(state);
        if let Some(courier) = courier {
            courier.start();
        }
    }

    /// Waits until everything that was taken in before has been delivered.
    pub(crate) async fn flush(&self) {
        let goal = self.inbox.lock().taken;
        loop {
            let mut progress = pin!(self.inbox.progress.notified());
            progress.as_mut().enable();
            let courier = {
                let mut state = self.inbox.lock();
                if state.delivered >= goal {
                    return;
                }
                self.call_courier(&mut state)
            };
            if let Some(courier) = courier {
                courier.start();
            }
            progress.await;
            // So that a runtime that is shutting down gets rid of this future.
            tokio::task::yield_now().await;
        }
    }

    /// Wakes the courier if it sleeps; the first one if there is none yet.
    fn call_courier(&self, state: &mut State) -> Option<Courier> {
        match state.courier {
            Duty::Working | Duty::Called(_) => None,
            Duty::Asleep => {
                state.courier = Duty::Called(self.errand());
                self.inbox.call.notify_one();
                None
            }
            Duty::Absent => {
                state.courier = Duty::Working;
                Some(Courier::new(Arc::clone(&self.inbox), self.errand()))
            }
        }
    }

    fn errand(&self) -> Errand {
        let callbacks = Arc::clone(&self.callbacks);
        Errand { callbacks, runtime: Handle::try_current().ok() }
    }

    fn options(&self) -> &TelemetryOptions {
        self.callbacks.options()
    }
}

impl Drop for Queue {
    /// Nobody has anything to tell any more.
    fn drop(&mut self) {
        self.inbox.close();
    }
}
