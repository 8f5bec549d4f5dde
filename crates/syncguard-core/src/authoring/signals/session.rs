//! The state that the hub, the task of a session and its watches share.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use super::registry::{Registry, WatchId};
use super::terms::{Changes, LockSeen, SignalLimits};
use crate::contract::key_watch::{KeyWatch, TRUSTED_FOR};

/// A connection for signals, from before it opens until it is over.
///
/// After [`TRUSTED_FOR`] without a message, the store is asked for a sign of life; a session that has been open for so long
/// has proved good; a task may be so late on a busy machine. After twice the time without a watch, a session is closed.
pub(super) struct Session {
    state: Mutex<State>,
    /// Wakes the task for new changes.
    task_wake: Notify,
    /// Wakes the check for a stuck task when the due time has changed.
    pub(super) due_changed: Notify,
    /// The longest that a step of the task may take.
    step: Duration,
}

struct State {
    /// `None` once the session is over.
    registry: Option<Registry>,
    began_at: Instant,
    opened_at: Option<Instant>,
    has_confirmed: bool,
    is_good: bool,
    /// When the store last sent anything.
    heard_at: Instant,
    /// When the task must have called `next` again. A task that has not is stuck.
    due: Instant,
    has_hub: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Opening {
        since: Instant,
    },
    Open,
    /// The runtime of the task is not driven.
    Stuck,
    Over,
}

impl Session {
    pub(super) fn new(limits: SignalLimits) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            registry: Some(Registry::new(now)),
            began_at: now,
            opened_at: None,
            has_confirmed: false,
            is_good: false,
            heard_at: now,
            due: now + limits.open,
            has_hub: true,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            task_wake: Notify::new(),
            due_changed: Notify::new(),
            step: limits.step,
        })
    }

    pub(super) fn stage(&self, now: Instant) -> Stage {
        let state = self.state();
        match state.opened_at {
            _ if state.registry.is_none() => Stage::Over,
            _ if state.due + TRUSTED_FOR < now => Stage::Stuck,
            None => Stage::Opening { since: state.began_at },
            Some(_) => Stage::Open,
        }
    }

    /// True if the store has confirmed a watch of this session.
    pub(super) fn has_confirmed(&self) -> bool {
        self.state().has_confirmed
    }

    /// True if the session has now been open, with a confirmed watch, for long enough. True only once.
    pub(super) fn proves_good(&self, now: Instant) -> bool {
        let mut state = self.state();
        let is_long = state.opened_at.is_some_and(|at| at + TRUSTED_FOR <= now);
        state.has_confirmed && is_long && !std::mem::replace(&mut state.is_good, true)
    }

    /// True if the session has proved good.
    pub(super) fn is_good(&self) -> bool {
        self.state().is_good
    }

    /// When the task must have called `next` again.
    pub(super) fn due(&self) -> Instant {
        self.state().due
    }

    /// Adds a watch and the receiver of its confirmation; `None` if the session is over.
    pub(super) fn join(
        self: &Arc<Self>,
        name: &str,
    ) -> Option<(KeyWatch, oneshot::Receiver<LockSeen>)> {
        let (signal, watch) = KeyWatch::new();
        let (id, confirmed) = self.state().registry.as_mut()?.join(name, signal);
        self.task_wake.notify_one();
        let leaving = LeaveOnDrop { session: Arc::clone(self), name: name.to_owned(), id };
        Some((watch.keeping(leaving), confirmed))
    }

    /// The hub is gone: the session ends with its last watch, and at once if it is still opening for no watch.
    pub(super) fn hub_is_gone(&self) {
        let mut state = self.state();
        state.has_hub = false;
        let idle_since = state.registry.as_ref().and_then(Registry::idle_since);
        if state.opened_at.is_none() && idle_since.is_some() {
            state.due = Instant::now();
        }
        drop(state);
        self.due_changed.notify_one();
        self.task_wake.notify_one();
    }

    /// Ends all watches and the task.
    pub(super) fn close(&self) {
        let mut state = self.state();
        let registry = state.registry.take();
        state.due = Instant::now();
        drop(state);
        self.due_changed.notify_one();
        // Drop the registry outside the lock: it wakes waiters.
        drop(registry);
    }

    /// The next step of the task: changes, or `None` for the end. If there is nothing to do, the error is the time until
    /// which the task waits.
    fn next_step(&self, now: Instant) -> Result<Option<Changes>, Instant> {
        let mut state = self.state();
        state.opened_at.get_or_insert(now);
        let step = state.next_step(now);
        state.due = match step {
            Ok(_) => now + self.step,
            Err(until) => until + TRUSTED_FOR,
        };
        drop(state);
        if step.is_ok() {
            self.due_changed.notify_one();
        }
        step
    }

    /// Passes a message of the store about a record to the registry.
    fn on_message<T>(&self, what: impl FnOnce(&mut Registry, Instant) -> T) -> Option<T> {
        let mut state = self.state();
        let now = Instant::now();
        state.heard_at = now;
        state.registry.as_mut().map(|registry| what(registry, now))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_step(&mut self, now: Instant) -> Result<Option<Changes>, Instant> {
        let Some(registry) = &mut self.registry else { return Ok(None) };
        let changes = registry.take_changes();
        if !changes.is_empty() {
            return Ok(Some(changes));
        }
        if let Some(since) = registry.idle_since() {
            let until = since + TRUSTED_FOR * 2;
            if now < until && self.has_hub {
                return Err(until);
            }
            self.registry = None;
            return Ok(None);
        }
        let until = self.heard_at + TRUSTED_FOR;
        if now < until {
            return Err(until);
        }
        self.heard_at = now;
        Ok(Some(changes))
    }
}

/// Ends a watch when it is dropped.
struct LeaveOnDrop {
    session: Arc<Session>,
    name: String,
    id: WatchId,
}

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        let mut state = self.session.state();
        if let Some(registry) = &mut state.registry {
            registry.leave(&self.name, self.id, Instant::now());
        }
        drop(state);
        self.session.task_wake.notify_one();
    }
}

/// The subscriptions of a session: the hub's end of a connection.
///
/// A session calls [`next`](Self::next) again and again, carries out the changes, and passes on the messages of the
/// store meanwhile. All methods ignore names without a watch.
pub struct Subscriptions(pub(super) Arc<Session>);

impl Subscriptions {
    /// Waits for the next changes. `None` tells the session to end: there has been no watch for ten
    /// seconds, or the hub is gone.
    ///
    /// [Empty](Changes::is_empty) changes ask for a sign of life: the store has sent no message for five seconds.
    /// The first call tells the hub that the connection is open.
    ///
    /// # Cancel safety
    ///
    /// Safe: no changes are lost.
    pub async fn next(&self) -> Option<Changes> {
        loop {
            match self.0.next_step(Instant::now()) {
                Ok(changes) => return changes,
                Err(until) => {
                    let _ = timeout_at(until, self.0.task_wake.notified()).await;
                }
            }
        }
    }

    /// Confirms a subscription: the store sends signals for this record from now on, and has reported this state of
    /// its lock since the session subscribed.
    pub fn confirm(&self, name: &str, lock: LockSeen) {
        // Before the waiter wakes.
        self.0.state().has_confirmed = true;
        self.0.on_message(|registry, _| registry.confirm(name, lock));
    }

    /// Refuses a subscription: the store sends no signals for this record, and waiters that have asked since the last
    /// confirmation poll.
    pub fn refuse(&self, name: &str) {
        // Drop the watches outside the lock: that wakes waiters.
        drop(self.0.on_message(|registry, now| registry.refuse(name, now)));
    }

    /// Signals that the lock of this record may be free. Its watches go on.
    pub fn signal(&self, name: &str) {
        self.0.on_message(|registry, _| registry.signal(name));
    }

    /// Ends the watches of this record: its lock may be free, or the store sends no more signals for it.
    pub fn end(&self, name: &str) {
        drop(self.0.on_message(|registry, now| registry.end(name, now)));
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscriptions")
    }
}
