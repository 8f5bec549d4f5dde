//! The queue of the waiters of one process.

use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until};

use super::slot_watcher::SlotWatcher;

/// Makes one waiter the head, which alone asks the store. The head owns the lock of the [`SlotWatcher`].
///
/// A head whose future is not polled does nothing and cannot leave either. When it is overdue, the other waiters get
/// a new watcher, and the first of them becomes the head.
pub(super) struct WaiterQueue(StdMutex<State>);

struct State {
    watcher: Arc<Mutex<SlotWatcher>>,
    /// When the head is overdue.
    due: Instant,
}

impl Default for WaiterQueue {
    fn default() -> Self {
        Self(StdMutex::new(State { watcher: Arc::default(), due: Instant::now() }))
    }
}

impl WaiterQueue {
    /// How late the head may be with its next step.
    const GRACE: Duration = Duration::from_secs(2);

    /// A first waiter comes to an empty queue.
    pub(super) fn begin(&self) {
        self.head_is_busy_until(Instant::now());
    }

    /// Waits until this waiter is the head; `None` at the deadline.
    pub(super) async fn become_head(
        &self,
        deadline: Instant,
    ) -> Option<OwnedMutexGuard<SlotWatcher>> {
        'watcher: loop {
            let watcher = Arc::clone(&self.state().watcher);
            let locked = Arc::clone(&watcher).lock_owned();
            tokio::pin!(locked);
            // The same future in each round: a new one would queue at the end.
            loop {
                let due = self.state().due;
                tokio::select! {
                    biased;
                    watcher = &mut locked => {
                        if self.is_current(&watcher) {
                            self.head_is_busy_until(Instant::now());
                            return Some(watcher);
                        }
                        continue 'watcher;
                    }
                    () = sleep_until(due.min(deadline)) => {}
                }
                let now = Instant::now();
                if deadline <= now {
                    return None;
                }
                if self.pass_over_head(&watcher, now) {
                    continue 'watcher;
                }
            }
        }
    }

    /// Returns true if the head, or the waiter that is to become the head, is overdue.
    pub(super) fn is_head_stuck(&self) -> bool {
        self.state().due <= Instant::now()
    }

    /// Returns false once the head with this watcher was passed over.
    pub(super) fn is_current(&self, watcher: &OwnedMutexGuard<SlotWatcher>) -> bool {
        Arc::ptr_eq(OwnedMutexGuard::mutex(watcher), &self.state().watcher)
    }

    /// The next step of the head ends at this time.
    pub(super) fn head_is_busy_until(&self, end: Instant) {
        self.state().due = end + Self::GRACE;
    }

    /// Ends all watches, because no waiter is left. A caller that comes meanwhile and is the head keeps them.
    pub(super) fn close_watches(&self) {
        let watcher = Arc::clone(&self.state().watcher);
        if let Ok(mut watcher) = watcher.try_lock() {
            watcher.close();
        }
    }

    /// Replaces the watcher if its head is overdue. Returns true if there is a new watcher.
    fn pass_over_head(&self, watcher: &Arc<Mutex<SlotWatcher>>, now: Instant) -> bool {
        let mut state = self.state();
        if !Arc::ptr_eq(watcher, &state.watcher) {
            return true;
        }
        if now < state.due {
            return false;
        }
        *state = State { watcher: Arc::default(), due: now + Self::GRACE };
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
