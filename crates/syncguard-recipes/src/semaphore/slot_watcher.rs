//! How the head of a process's waiters learns that a slot may be free.

use std::collections::HashSet;
use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use syncguard_core::LockBackend;
use syncguard_core::authoring::open_watch;
use syncguard_core::contract::KeyWatch;

use super::Semaphore;
use super::slots::Slots;

/// Watches the slots that other processes hold. Each head hands it over to the next one.
#[derive(Default)]
pub(super) struct SlotWatcher {
    /// Each resolves at the next signal, with the number of its slot.
    watches: FuturesUnordered<NextSignal>,
    /// The slots that are watched, or would be if the store had signals for them.
    asked: HashSet<usize>,
    /// The slots for which the store had no signals, until the next poll.
    without_signals: Vec<usize>,
}

type NextSignal = Pin<Box<dyn Future<Output = (usize, KeyWatch)> + Send>>;

impl SlotWatcher {
    /// Watches each slot that another process holds and that is not watched yet.
    pub(super) async fn watch<B: LockBackend>(&mut self, semaphore: &Semaphore<B>, left: Duration) {
        let Semaphore { backend, slots, config } = semaphore;
        let options = &config.acquisition();
        let unwatched = slots.of_others().into_iter().filter(|number| !self.asked.contains(number));
        let begun = unwatched.map(|number| async move {
            let key = slots.key_of(number).ok()?;
            Some((number, open_watch(backend, &key, options, left).await))
        });
        for (number, watch) in join_all(begun).await.into_iter().flatten() {
            self.asked.insert(number);
            if watch.as_ref().is_some_and(|watch| !watch.is_locked()) {
                // A release before the watch began gave no signal.
                slots.mark_maybe_free(number);
                slots.changed.notify_one();
            }
            match watch.filter(|watch| !watch.is_over()) {
                Some(watch) => self.listen(number, watch),
                None => self.without_signals.push(number),
            }
        }
    }

    /// A poll is due: the store is asked for signals again where it had none. Returns how many slots the poll tries.
    pub(super) fn on_poll(&mut self) -> usize {
        let slots = if self.without_signals.is_empty() { 1 } else { 4 };
        for number in self.without_signals.drain(..) {
            self.asked.remove(&number);
        }
        slots
    }

    /// Resolves at the next signal, and marks its slot.
    pub(super) async fn signal(&mut self, slots: &Slots) {
        let Some((number, watch)) = self.watches.next().await else { return pending().await };
        slots.mark_maybe_free(number);
        if watch.is_over() {
            self.asked.remove(&number);
        } else {
            self.listen(number, watch);
        }
    }

    fn listen(&mut self, number: usize, mut watch: KeyWatch) {
        self.watches.push(Box::pin(async move {
            watch.changed().await;
            (number, watch)
        }));
    }
}
