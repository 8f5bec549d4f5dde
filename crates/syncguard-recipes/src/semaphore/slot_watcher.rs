//! How the head of a process's waiters learns that a slot may be free.

use std::collections::HashSet;
use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use syncguard_core::authoring::recipes::open_watch;
use syncguard_core::contract::KeyWatch;
use syncguard_core::{AcquisitionOptions, Key, LockBackend};

/// The longest time between two polls while the store has signals for all slots: what a signal that is lost costs if there
/// are few slots.
const QUIET: Duration = Duration::from_secs(5);

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
    /// Watches these slots, unless they are watched already. Returns those that may be free: a release before the watch
    /// began gave no signal.
    pub(super) async fn watch<B: LockBackend>(
        &mut self,
        slots: Vec<(usize, Key)>,
        backend: &B,
        options: &AcquisitionOptions,
        left: Duration,
    ) -> Vec<usize> {
        let unwatched = slots.into_iter().filter(|(number, _)| !self.asked.contains(number));
        let begun = unwatched.map(|(number, key)| async move {
            (number, open_watch(backend, &key, options, left).await)
        });
        let mut may_be_free = Vec::new();
        for (number, watch) in join_all(begun).await {
            self.asked.insert(number);
            if watch.as_ref().is_some_and(|watch| !watch.is_locked) {
                may_be_free.push(number);
            }
            match watch {
                Some(watch) if !watch.is_over() => self.listen(number, watch),
                _ => self.without_signals.push(number),
            }
        }
        may_be_free
    }

    /// The pause between two polls, which is this one where signals are missing.
    pub(super) fn pause(&self, usual: Duration) -> Duration {
        if self.without_signals.is_empty() { usual.max(QUIET) } else { usual }
    }

    /// A poll is due: the store is asked for signals again where it had none. Returns how many slots the poll tries.
    pub(super) fn on_poll(&mut self) -> usize {
        let slots = if self.without_signals.is_empty() { 12 } else { 4 };
        for number in self.without_signals.drain(..) {
            self.asked.remove(&number);
        }
        slots
    }

    /// Resolves at the next signal, with the number of its slot.
    pub(super) async fn signal(&mut self) -> usize {
        let Some((number, watch)) = self.watches.next().await else { return pending().await };
        if watch.is_over() {
            self.asked.remove(&number);
        } else {
            self.listen(number, watch);
        }
        number
    }

    fn listen(&mut self, number: usize, mut watch: KeyWatch) {
        self.watches.push(Box::pin(async move {
            watch.changed().await;
            (number, watch)
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_watch_that_is_over_can_begin_again() {
        let (signal, watch) = KeyWatch::new();
        let mut watcher = SlotWatcher::default();
        watcher.asked.insert(3);
        watcher.listen(3, watch);
        signal.signal();
        assert_eq!(watcher.signal().await, 3);
        assert!(watcher.asked.contains(&3), "it is watched still");
        drop(signal);
        assert_eq!(watcher.signal().await, 3);
        assert!(watcher.asked.is_empty(), "nobody would watch it again");
    }
}
