//! The bounded queue between operations and callbacks.
//!
//! Operations put records into the queue, and one thread of the queue delivers them to the callbacks. The first record
//! starts the thread. The thread ends after the queue is dropped and all records are delivered.
//!
//! Nothing waits for this thread, so a callback that blocks delays no operation, no end of a runtime and no end of the
//! program. A task or a blocking thread of a runtime would not do: the end of a runtime waits for its threads, and the
//! end of `main` for the runtime, so a callback that blocks for ever would keep the process alive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use syncguard_core::authoring::catch_callback_panic;
use syncguard_core::observe::Observation;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::yield_now;

use crate::callbacks::Callbacks;
use crate::options::TelemetryOptions;
use crate::record::{Record, Scope};

/// The dropped events of all queues of the process: for metrics, because all queues share the instruments.
static DROPPED_BY_ALL: AtomicU64 = AtomicU64::new(0);

#[cfg(feature = "opentelemetry")]
pub(crate) fn dropped_by_all() -> u64 {
    DROPPED_BY_ALL.load(Ordering::Relaxed)
}

pub(crate) struct Queue {
    backend: &'static str,
    callbacks: Arc<Callbacks>,
    state: Mutex<State>,
    /// The thread that delivers owns this lock. The queue keeps the receiver, so that no record is lost if the system
    /// has no thread to give.
    records: Arc<Mutex<Receiver<Record>>>,
    progress: Arc<Progress>,
    dropped: AtomicU64,
}

struct State {
    sender: Sender<Record>,
    /// How many records were put into the queue.
    sent: u64,
    has_thread: bool,
}

#[derive(Default)]
struct Progress {
    /// How many records were taken out of the queue.
    taken: AtomicU64,
    /// How many records have been through all callbacks.
    delivered: watch::Sender<u64>,
}

impl Queue {
    pub(crate) fn new(backend: &'static str, options: TelemetryOptions) -> Self {
        // Unbounded, because `sync_channel` would allocate its whole capacity at once. `push` checks the bound.
        let (sender, records) = channel();
        let callbacks = Callbacks::new(options);
        callbacks.begin(backend);
        Self {
            backend,
            callbacks: Arc::new(callbacks),
            state: Mutex::new(State { sender, sent: 0, has_thread: false }),
            records: Arc::new(Mutex::new(records)),
            progress: Arc::default(),
            dropped: AtomicU64::new(0),
        }
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

    /// Returns true if a sink logs every loss.
    pub(crate) fn logs(&self) -> bool {
        self.options().logs
    }

    /// Updates the gauges of waiters and holders, and queues a record of each end.
    pub(crate) fn observe(&self, observation: &Observation) {
        self.callbacks.count(self.backend, observation);
        if let Some(record) = Record::observed(self.backend, observation) {
            self.push(record);
        }
    }

    /// Queues a record, or drops it if the queue is full. Never waits for a callback.
    pub(crate) fn push(&self, mut record: Record) {
        record.runtime = Handle::try_current().ok();
        if self.options().logs {
            record.scope = Some(Scope::current());
        }
        let mut state = self.state();
        let waiting = state.sent - self.progress.taken.load(Ordering::Relaxed);
        if waiting < u64::try_from(self.options().capacity).unwrap_or(u64::MAX) {
            // No error: the receiver is in `self`.
            let _ = state.sender.send(record);
            state.sent += 1;
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            DROPPED_BY_ALL.fetch_add(1, Ordering::Relaxed);
        }
        // If the system has no thread to give, the next event tries again.
        self.start(&mut state);
    }

    /// Waits until all records that were queued before have been delivered.
    pub(crate) async fn flush(&self) {
        let sent = self.state().sent;
        let mut delivered = self.progress.delivered.subscribe();
        if *delivered.borrow() >= sent {
            return;
        }
        while !self.start(&mut self.state()) {
            yield_now().await;
        }
        // No error: the sender is in `self`.
        let _ = delivered.wait_for(|delivered| *delivered >= sent).await;
    }

    /// Starts the thread that delivers, unless it runs already. Returns false if the system has no thread to give.
    fn start(&self, state: &mut State) -> bool {
        if !state.has_thread {
            let (callbacks, records) = (Arc::clone(&self.callbacks), Arc::clone(&self.records));
            let progress = Arc::clone(&self.progress);
            let thread = thread::Builder::new().name("syncguard-telemetry".to_owned());
            let started = thread.spawn(move || deliver_all(callbacks, &records, &progress));
            state.has_thread = started.is_ok();
        }
        state.has_thread
    }

    fn options(&self) -> &TelemetryOptions {
        self.callbacks.options()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Delivers records until the queue is dropped and empty.
fn deliver_all(callbacks: Arc<Callbacks>, records: &Mutex<Receiver<Record>>, progress: &Progress) {
    let records = records.lock().unwrap_or_else(PoisonError::into_inner);
    while let Ok(record) = records.recv() {
        progress.taken.fetch_add(1, Ordering::Relaxed);
        callbacks.deliver(record);
        progress.delivered.send_modify(|delivered| *delivered += 1);
    }
    // This may be the last owner of the callbacks. Their drop is foreign code and can panic.
    catch_callback_panic(move || drop(callbacks));
}
