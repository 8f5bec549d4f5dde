//! The way of an event from an operation to the callbacks.
//!
//! Operations put records into a bounded queue, and a courier delivers them on a thread that nothing
//! waits for: a callback that blocks delays no operation, no runtime's end and no program's end.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::LockEvent;
use crate::courier::{Courier, Duty};
use crate::options::{IncludeRaw, TelemetryOptions};
use crate::record::{Record, Scope};
use syncguard_core::authoring::contain;

pub(crate) struct Queue {
    backend: &'static str,
    options: TelemetryOptions,
    inbox: Arc<Inbox>,
    /// Something was delivered, or a courier is gone.
    progress: Notify,
    dropped: AtomicU64,
    panics: AtomicU64,
}

/// What waits, without those it is for: all that a sleeping courier holds.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// The courier is called, or not needed any more.
    call: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) waiting: VecDeque<Record>,
    /// How many records were ever taken in, and how many of them were delivered.
    taken: u64,
    pub(crate) delivered: u64,
    pub(crate) courier: Duty,
}

impl Inbox {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the courier is to sleep, for this long at most.
    pub(crate) fn sleep(&self, at_most: Duration) -> MutexGuard<'_, State> {
        let is_asleep = |state: &mut State| matches!(state.courier, Duty::Asleep);
        let (state, _) = self
            .call
            .wait_timeout_while(self.lock(), at_most, is_asleep)
            .unwrap_or_else(PoisonError::into_inner);
        state
    }
}

impl Queue {
    pub(crate) fn new(backend: &'static str, options: TelemetryOptions) -> Self {
        Self {
            backend,
            options,
            inbox: Arc::default(),
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

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    pub(crate) fn notify_progress(&self) {
        self.progress.notify_waiters();
    }

    /// Takes a record in, or drops it if the queue is full. Never waits for a callback.
    pub(crate) fn push(self: &Arc<Self>, mut record: Record) {
        if self.options.wants_scope {
            record.scope = Some(Scope::current());
        }
        let mut state = self.inbox.lock();
        if state.waiting.len() < self.options.capacity {
            state.waiting.push_back(record);
            state.taken += 1;
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        let courier = self.call_courier(&mut state);
        drop(state);
        if let Some(courier) = courier {
            courier.start();
        }
    }

    /// Waits until everything that was taken in before has been delivered.
    pub(crate) async fn flush(self: &Arc<Self>) {
        let goal = self.inbox.lock().taken;
        loop {
            let mut progress = pin!(self.progress.notified());
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
    fn call_courier(self: &Arc<Self>, state: &mut State) -> Option<Courier> {
        match state.courier {
            Duty::Working | Duty::Called(_) => None,
            Duty::Asleep => {
                state.courier = Duty::Called(Courier::new(Arc::clone(self)));
                self.inbox.call.notify_one();
                None
            }
            Duty::Absent => {
                state.courier = Duty::Working;
                Some(Courier::new(Arc::clone(self)))
            }
        }
    }

    /// Hands a record to everybody. Spans and their subscribers are foreign code, too.
    pub(crate) fn deliver(&self, record: Record) {
        self.contain(|| {
            let Record { mut event, key, lock_id, scope } = record;
            event.key_hash = key.as_ref().map(Into::into);
            event.lock_id_hash = lock_id.as_ref().map(Into::into);
            if self.may_include_raw(&event) {
                (event.key, event.lock_id) = (key, lock_id);
            }
            match scope {
                None => self.call(&event),
                Some(Scope { dispatch, span }) => {
                    tracing::dispatcher::with_default(&dispatch, || {
                        span.in_scope(|| self.call(&event));
                    });
                }
            }
        });
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

    /// Runs foreign code and counts its panics; `None` if it panicked.
    fn contain<T>(&self, foreign: impl FnOnce() -> T) -> Option<T> {
        let result = contain(foreign);
        if result.is_none() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

impl Drop for Queue {
    /// Nobody has anything to tell any more, so whoever sleeps may go.
    fn drop(&mut self) {
        self.inbox.lock().courier = Duty::Absent;
        self.inbox.call.notify_one();
    }
}
