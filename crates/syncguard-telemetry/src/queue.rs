//! The way of an event from an operation to the callbacks.
//!
//! Operations put records into a bounded queue. The first one into an empty queue starts a courier
//! on the runtime's blocking pool, which delivers until the queue is empty again: there is no task
//! to shut down, none that holds a runtime up while all is quiet, and a callback that blocks
//! occupies no thread that operations run on.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::LockEvent;
use crate::options::{IncludeRaw, TelemetryOptions};
use crate::record::{Record, Scope};

pub(crate) struct Queue {
    backend: &'static str,
    options: TelemetryOptions,
    state: Mutex<State>,
    /// Something was delivered, or a courier is gone.
    progress: Notify,
    dropped: AtomicU64,
    panics: AtomicU64,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Record>,
    /// How many records were ever taken in, and how many of them were delivered.
    taken: u64,
    delivered: u64,
    /// Whether there is a courier.
    delivering: bool,
}

impl Queue {
    pub(crate) fn new(backend: &'static str, options: TelemetryOptions) -> Self {
        Self {
            backend,
            options,
            state: Mutex::default(),
            progress: Notify::new(),
            dropped: AtomicU64::new(0),
            panics: AtomicU64::new(0),
        }
    }

    pub(crate) fn backend(&self) -> &'static str {
        self.backend
    }

    pub(crate) fn has_listeners(&self) -> bool {
        !self.options.sinks.is_empty()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Takes a record in, or drops it if the queue is full. Never waits for a callback.
    pub(crate) fn push(self: &Arc<Self>, mut record: Record) {
        if self.options.wants_scope {
            record.scope = Some(Scope::current());
        }
        let mut state = self.lock();
        if state.waiting.len() < self.options.capacity {
            state.waiting.push_back(record);
            state.taken += 1;
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        let courier = self.courier(&mut state);
        drop(state);
        // Outside a runtime the records wait for the next event inside one, or for a flush.
        if let (Some(courier), Ok(runtime)) = (courier, Handle::try_current()) {
            courier.send(&runtime);
        }
    }

    /// Waits until everything that was taken in before has been delivered.
    pub(crate) async fn flush(self: &Arc<Self>) {
        let goal = self.lock().taken;
        loop {
            let mut progress = pin!(self.progress.notified());
            progress.as_mut().enable();
            let courier = {
                let mut state = self.lock();
                if state.delivered >= goal {
                    return;
                }
                self.courier(&mut state)
            };
            match (courier, Handle::try_current()) {
                (Some(courier), Ok(runtime)) => courier.send(&runtime),
                (Some(courier), Err(_)) => courier.deliver(),
                (None, _) => {}
            }
            progress.await;
            // So that a runtime that is shutting down gets rid of this future.
            tokio::task::yield_now().await;
        }
    }

    /// The one courier, if there is none yet.
    fn courier(self: &Arc<Self>, state: &mut State) -> Option<Courier> {
        let is_needed = !std::mem::replace(&mut state.delivering, true);
        is_needed.then(|| Courier { queue: Arc::clone(self), on_duty: true })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, record: Record) {
        let Record { mut event, key, lock_id, scope } = record;
        event.key_hash = key.as_ref().map(Into::into);
        event.lock_id_hash = lock_id.as_ref().map(Into::into);
        if self.may_include_raw(&event) {
            (event.key, event.lock_id) = (key, lock_id);
        }
        match scope {
            None => self.call(&event),
            Some(Scope { dispatch, span }) => tracing::dispatcher::with_default(&dispatch, || {
                span.in_scope(|| self.call(&event));
            }),
        }
    }

    fn may_include_raw(&self, event: &LockEvent) -> bool {
        match &self.options.include_raw {
            IncludeRaw::Never => false,
            IncludeRaw::Always => true,
            IncludeRaw::If(predicate) => self.contain(|| predicate(event)).unwrap_or(false),
        }
    }

    fn call(&self, event: &LockEvent) {
        for sink in &self.options.sinks {
            self.contain(|| sink(event));
        }
    }

    /// Runs foreign code; `None` if it panicked.
    fn contain<T>(&self, foreign: impl FnOnce() -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(foreign)).ok();
        if result.is_none() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

/// Whoever delivers. While there is one, there is no other, so events keep their order.
struct Courier {
    queue: Arc<Queue>,
    on_duty: bool,
}

impl Courier {
    /// Delivers on the blocking pool.
    fn send(self, runtime: &Handle) {
        // tokio panics if the system has no more threads to give. That must break no operation:
        // the courier is gone then, and the next event sends another one.
        let _ = catch_unwind(AssertUnwindSafe(|| runtime.spawn_blocking(move || self.deliver())));
    }

    fn deliver(mut self) {
        let mut delivered = 0;
        while let Some(record) = self.next(delivered) {
            self.queue.deliver(record);
            delivered = 1;
        }
    }

    /// Notes what has been delivered, and takes the next record.
    fn next(&mut self, delivered: u64) -> Option<Record> {
        let mut state = self.queue.lock();
        state.delivered += delivered;
        let next = state.waiting.pop_front();
        if next.is_none() {
            // Under the same lock under which the queue was found empty, so that no record stays
            // behind.
            state.delivering = false;
            self.on_duty = false;
        }
        drop(state);
        self.queue.progress.notify_waiters();
        next
    }
}

impl Drop for Courier {
    /// One that never got to its work, without a runtime or after its end, makes room for another.
    fn drop(&mut self) {
        if self.on_duty {
            self.queue.lock().delivering = false;
            self.queue.progress.notify_waiters();
        }
    }
}
