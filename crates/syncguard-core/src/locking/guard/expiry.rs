//! The end of locks that no runtime watches: one thread for all of them.
//!
//! A lock is over when its time is, also where the runtime that watched it has ended, or where nobody
//! who asked was in a runtime. The thread starts when it is needed and ends when nothing is left.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use crate::rt::{Instant, LOOK_AGAIN, after};

/// Something that ends when its time comes.
pub(super) trait Ends: Send + Sync {
    /// Ends it if its time has come; says when it will, if it has not ended.
    fn ends_at(&self) -> Option<Instant>;
}

static WATCHED: Mutex<Watched> =
    Mutex::new(Watched { locks: BTreeMap::new(), next: 0, has_thread: false });
static CHANGED: Condvar = Condvar::new();

struct Watched {
    /// By the time of the next look; the number tells those apart that end together.
    locks: BTreeMap<(Instant, u64), Weak<dyn Ends>>,
    next: u64,
    has_thread: bool,
}

impl Watched {
    fn insert(&mut self, at: Instant, lock: &Arc<dyn Ends>) {
        self.next += 1;
        self.locks.insert((at, self.next), Arc::downgrade(lock));
    }

    /// A guard that was dropped need not stay here until its lock would have ended.
    fn forget_the_dropped(&mut self) {
        self.locks.retain(|_, lock| lock.strong_count() > 0);
    }

    fn due(&mut self) -> Vec<Weak<dyn Ends>> {
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some(first) = self.locks.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        due
    }
}

/// Makes sure that everyone hears of the end of this lock when its time comes.
pub(super) fn watch(lock: &Arc<dyn Ends>) {
    let Some(until) = lock.ends_at() else { return };
    let mut watched = watched_locks();
    watched.insert(until, lock);
    CHANGED.notify_one();
    if !watched.has_thread {
        let thread = thread::Builder::new().name("syncguard-expiry".to_owned()).spawn(run);
        watched.has_thread = thread.is_ok();
        if let Err(error) = thread {
            tracing::error!(%error, "no thread can be had; the loss of a lock may not be heard of");
        }
    }
}

/// One of the locks may end sooner than it was to.
pub(super) fn look_again() {
    let mut watched = watched_locks();
    let locks = std::mem::take(&mut watched.locks);
    let now = Instant::now();
    watched.locks = locks.into_iter().map(|((_, number), lock)| ((now, number), lock)).collect();
    CHANGED.notify_one();
}

fn run() {
    let mut watched = watched_locks();
    let mut sweeps = after(LOOK_AGAIN);
    loop {
        if sweeps <= Instant::now() {
            watched.forget_the_dropped();
            sweeps = after(LOOK_AGAIN);
        }
        let due = watched.due();
        if due.is_empty() {
            let Some((&(at, _), _)) = watched.locks.first_key_value() else {
                watched.has_thread = false;
                return;
            };
            let left = at.saturating_duration_since(Instant::now()).min(LOOK_AGAIN);
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

/// Ends the locks whose time has come, and gives back those that were renewed meanwhile.
fn still_held(due: Vec<Weak<dyn Ends>>) -> Vec<(Instant, Arc<dyn Ends>)> {
    let alive = due.into_iter().filter_map(|lock| lock.upgrade());
    alive.filter_map(|lock| Some((lock.ends_at()?, lock))).collect()
}

fn watched_locks() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Never;

    impl Ends for Never {
        fn ends_at(&self) -> Option<Instant> {
            Some(Instant::now())
        }
    }

    #[test]
    fn only_locks_that_somebody_holds_are_kept() {
        let mut watched = Watched { locks: BTreeMap::new(), next: 0, has_thread: false };
        let locks: Vec<Arc<dyn Ends>> = (0..10).map(|_| Arc::new(Never) as _).collect();
        for lock in &locks {
            watched.insert(after(LOOK_AGAIN), lock);
        }
        let kept = locks.into_iter().next();
        watched.forget_the_dropped();
        assert_eq!(watched.locks.len(), 1);
        drop(kept);
        watched.forget_the_dropped();
        assert!(watched.locks.is_empty());
    }
}
