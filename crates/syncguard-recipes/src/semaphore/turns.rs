//! Whose turn it is to wait at the desk.

use std::sync::{Arc, Mutex as State, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until};

use super::desk::Desk;

/// The desk of a process, and until when its owner does something. A caller whose future nobody polls does nothing,
/// and cannot leave either: the others get a new desk then.
pub(super) struct Turns(State<Current>);

struct Current {
    desk: Arc<Mutex<Desk>>,
    due: Instant,
}

impl Default for Turns {
    fn default() -> Self {
        Self(State::new(Current { desk: Arc::default(), due: Instant::now() }))
    }
}

impl Turns {
    /// How late the owner of the desk may be with what it does.
    const GRACE: Duration = Duration::from_secs(2);

    /// Somebody begins to wait, and nobody did.
    pub(super) fn begin(&self) {
        self.is_busy_until(Instant::now());
    }

    /// Waits for the desk, for its turn; `None` if it does not come in time.
    pub(super) async fn next(&self, deadline: Instant) -> Option<OwnedMutexGuard<Desk>> {
        'desk: loop {
            let desk = Arc::clone(&self.current().desk);
            let turn = Arc::clone(&desk).lock_owned();
            tokio::pin!(turn);
            // One and the same wait all the time: who begins anew is the last one.
            loop {
                let due = self.current().due;
                tokio::select! {
                    biased;
                    turn = &mut turn => {
                        if self.is_at(&turn) {
                            self.is_busy_until(Instant::now());
                            return Some(turn);
                        }
                        continue 'desk;
                    }
                    () = sleep_until(due.min(deadline)) => {}
                }
                let now = Instant::now();
                if deadline <= now {
                    return None;
                }
                if self.passes_over(&desk, now) {
                    continue 'desk;
                }
            }
        }
    }

    /// Whether the owner of the desk, or the caller that it was left to, does nothing any more.
    pub(super) fn is_stuck(&self) -> bool {
        self.current().due <= Instant::now()
    }

    /// Whether this is still the desk, and not one whose owner was passed over.
    pub(super) fn is_at(&self, turn: &OwnedMutexGuard<Desk>) -> bool {
        Arc::ptr_eq(OwnedMutexGuard::mutex(turn), &self.current().desk)
    }

    /// The owner of the desk does something that is over by then.
    pub(super) fn is_busy_until(&self, over: Instant) {
        self.current().due = over + Self::GRACE;
    }

    /// A new desk, if the owner of this one does nothing. Whether there is another one now.
    fn passes_over(&self, desk: &Arc<Mutex<Desk>>, now: Instant) -> bool {
        let mut current = self.current();
        if !Arc::ptr_eq(desk, &current.desk) {
            return true;
        }
        if now < current.due {
            return false;
        }
        *current = Current { desk: Arc::default(), due: now + Self::GRACE };
        true
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
