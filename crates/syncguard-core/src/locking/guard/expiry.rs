//! Expiry of locks that no runtime watches: one thread for all of them.
//!
//! The loss of a lock must be announced in time even if the runtime of its watcher has ended, or if
//! [`Held::lost`](super::Held::lost) was called outside a runtime. The thread starts with the first such
//! lock and ends after the last.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use crate::rt::{Instant, SUSPEND_CHECK, after};

/// A lock that ends when its time is over.
pub(super) trait Expires: Send + Sync {
    /// Expires the lock if its time is over. Returns when the lock ends, unless it has ended.
    fn end_if_over(&self) -> Option<Instant>;
}

static WATCHED: Mutex<WatchList> =
    Mutex::new(WatchList { locks: BTreeMap::new(), next: 0, has_thread: false });
static CHANGED: Condvar = Condvar::new();

struct WatchList {
    /// Sorted by the time of the next check. The number distinguishes locks with the same time.
    locks: BTreeMap<(Instant, u64), Weak<dyn Expires>>,
    next: u64,
    has_thread: bool,
}

impl WatchList {
    fn insert(&mut self, at: Instant, lock: &Arc<dyn Expires>) {
        self.next += 1;
        self.locks.insert((at, self.next), Arc::downgrade(lock));
    }

    /// Removes the locks whose guards were dropped, long before their locks would have ended.
    fn remove_dropped(&mut self) {
        self.locks.retain(|_, lock| lock.strong_count() > 0);
    }

    fn due(&mut self) -> Vec<Weak<dyn Expires>> {
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some(first) = self.locks.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        due
    }
}

/// Expires this lock when its time is over.
pub(super) fn watch(lock: &Arc<dyn Expires>) {
    let Some(until) = lock.end_if_over() else { return };
    let mut watched = watched_locks();
    watched.insert(until, lock);
    CHANGED.notify_one();
    if !watched.has_thread {
        let thread = thread::Builder::new().name("syncguard-expiry".to_owned()).spawn(run);
        watched.has_thread = thread.is_ok();
        if let Err(error) = thread {
            tracing::error!(%error, "the expiry thread cannot start; the loss of a lock may go unnoticed");
        }
    }
}

/// Checks all locks again, because one of them may end sooner than before.
pub(super) fn check_all() {
    let mut watched = watched_locks();
    let locks = std::mem::take(&mut watched.locks);
    let now = Instant::now();
    watched.locks = locks.into_iter().map(|((_, number), lock)| ((now, number), lock)).collect();
    CHANGED.notify_one();
}

fn run() {
    let mut watched = watched_locks();
    let mut next_removal = after(SUSPEND_CHECK);
    loop {
        if next_removal <= Instant::now() {
            watched.remove_dropped();
            next_removal = after(SUSPEND_CHECK);
        }
        let due = watched.due();
        if due.is_empty() {
            let Some((&(at, _), _)) = watched.locks.first_key_value() else {
                watched.has_thread = false;
                return;
            };
            let left = at.saturating_duration_since(Instant::now()).min(SUSPEND_CHECK);
            watched = CHANGED.wait_timeout(watched, left).unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        drop(watched);
        let renewed = still_held(due);
        watched = watched_locks();
        for (until, lock) in renewed {
            watched.insert(until, &lock);
        }
    }
}

/// Expires the locks whose time is over. Returns the locks that were renewed meanwhile.
fn still_held(due: Vec<Weak<dyn Expires>>) -> Vec<(Instant, Arc<dyn Expires>)> {
    let alive = due.into_iter().filter_map(|lock| lock.upgrade());
    alive.filter_map(|lock| Some((lock.end_if_over()?, lock))).collect()
}

fn watched_locks() -> MutexGuard<'static, WatchList> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}
