//! How the head of a process's waiters learns that a slot may be free.

use std::collections::HashSet;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use syncguard_core::LockBackend;
use syncguard_core::contract::{KeyWatch, WatchRequest};
use tokio::time::{Instant, timeout_at};

use super::slots::Slots;

/// Watches the slots that other processes hold. Each head hands it over to the next one.
#[derive(Default)]
pub(super) struct SlotWatcher {
    /// Each resolves at the next signal, with the number of its slot.
    watches: FuturesUnordered<NextSignal>,
    watched: HashSet<usize>,
    /// The slots for which the store had no signals, until the next poll.
    without_signals: HashSet<usize>,
}

/// The watches that the last head has left for the next.
#[derive(Default)]
pub(super) struct LeftWatches(Mutex<Option<SlotWatcher>>);

impl LeftWatches {
    pub(super) fn take(&self) -> Option<SlotWatcher> {
        self.state().take()
    }

    pub(super) fn put(&self, watcher: SlotWatcher) {
        let before = self.state().replace(watcher);
        drop(before);
    }

    fn state(&self) -> MutexGuard<'_, Option<SlotWatcher>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type NextSignal = Pin<Box<dyn Future<Output = (usize, KeyWatch)> + Send>>;

impl SlotWatcher {
    /// A watch that takes longer to begin is given up.
    const WATCH_LIMIT: Duration = Duration::from_millis(500);

    /// Watches each slot that another process holds and that is not watched yet. Returns true if a slot may be
    /// free already.
    pub(super) async fn watch<B: LockBackend>(
        &mut self,
        backend: &B,
        slots: &Slots,
        deadline: Instant,
    ) -> bool {
        let limit = deadline.min(Instant::now() + Self::WATCH_LIMIT);
        let known =
            |number: &usize| self.watched.contains(number) || self.without_signals.contains(number);
        let unwatched = slots.held_by_others().filter(|(number, _)| !known(number));
        let begun = unwatched.map(|(number, key)| async move {
            let watch = timeout_at(limit, backend.watch(WatchRequest::new(key))).await;
            (number, watch.ok().flatten())
        });
        let mut may_be_free = false;
        for (number, watch) in join_all(begun).await {
            if watch.as_ref().is_some_and(|watch| !watch.is_locked()) {
                slots.mark_maybe_free(number);
                may_be_free = true;
            }
            match watch.filter(|watch| !watch.is_over()) {
                Some(watch) => self.listen(number, watch),
                None => drop(self.without_signals.insert(number)),
            }
        }
        may_be_free
    }

    /// A poll is due: the store is asked for signals again where it had none. Returns how many slots the poll tries.
    pub(super) fn on_poll(&mut self) -> usize {
        let slots = if self.without_signals.is_empty() { 1 } else { 4 };
        self.without_signals.clear();
        slots
    }

    /// Resolves at the next signal, and marks its slot.
    pub(super) async fn signal(&mut self, slots: &Slots) {
        let Some((number, watch)) = self.watches.next().await else { return pending().await };
        slots.mark_maybe_free(number);
        self.watched.remove(&number);
        if !watch.is_over() {
            self.listen(number, watch);
        }
    }

    fn listen(&mut self, number: usize, mut watch: KeyWatch) {
        self.watched.insert(number);
        self.watches.push(Box::pin(async move {
            watch.changed().await;
            (number, watch)
        }));
    }
}
