//! How the head of a process's waiters learns that a slot may be free.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use syncguard_core::authoring::pause::jittered;
use syncguard_core::contract::{KeyWatch, WatchRequest};
use syncguard_core::{AcquisitionOptions, LockBackend};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::slots::Slots;

/// Watches the slots that other processes hold, and polls them from time to time. Each head hands it over to the
/// next one.
#[derive(Default)]
pub(super) struct SlotWatcher {
    /// By the number of the slot.
    watches: Vec<SlotWatch>,
    /// Before the next poll; it doubles with each poll.
    pause: Duration,
    poll_at: Option<Instant>,
    longest_pause: Duration,
}

enum SlotWatch {
    /// The store was not asked for signals.
    NotAsked,
    /// The store has no signals at the moment.
    NoSignals,
    /// Resolves at the next signal.
    Watching(Pin<Box<dyn Future<Output = KeyWatch> + Send>>),
}

impl SlotWatcher {
    /// A watch that takes longer to begin is given up.
    const WATCH_LIMIT: Duration = Duration::from_millis(500);
    /// How many slots without signals one poll covers.
    const POLLED_AT_ONCE: usize = 4;

    /// A new head begins to wait.
    pub(super) fn begin(&mut self, options: &AcquisitionOptions) {
        self.longest_pause = options.max_retry_delay.max(options.retry_delay);
        self.pause = options.retry_delay;
    }

    /// Drops all watches, because no waiter is left.
    pub(super) fn close(&mut self) {
        *self = Self::default();
    }

    /// Watches each slot that another process holds and that is not watched yet. Returns true if a slot may be
    /// free already.
    pub(super) async fn watch<B: LockBackend>(
        &mut self,
        backend: &B,
        slots: &Slots,
        deadline: Instant,
    ) -> bool {
        let mut unwatched = slots.held_by_others();
        unwatched.retain(|(number, _)| {
            matches!(self.watches.get(*number), None | Some(SlotWatch::NotAsked))
        });
        let limit = deadline.min(Instant::now() + Self::WATCH_LIMIT);
        let watches = unwatched.into_iter().map(|(number, key)| async move {
            let watch = timeout_at(limit, backend.watch(WatchRequest::new(key))).await;
            (number, watch.ok().flatten())
        });
        let mut may_be_free = false;
        for (number, watch) in join_all(watches).await {
            if watch.as_ref().is_some_and(|watch| !watch.is_locked()) {
                slots.mark_maybe_free(u32::try_from(number).unwrap_or(u32::MAX));
                may_be_free = true;
            }
            while self.watches.len() <= number {
                self.watches.push(SlotWatch::NotAsked);
            }
            let alive = watch.filter(|watch| !watch.is_over());
            self.watches[number] =
                alive.map_or(SlotWatch::NoSignals, |watch| SlotWatch::Watching(next_signal(watch)));
        }
        may_be_free
    }

    /// When [`sleep`](Self::sleep) ends without a signal.
    pub(super) fn wakes_at(&mut self, slots: &Slots, deadline: Instant) -> Instant {
        self.poll_at = Some(Instant::now() + jittered(self.pause));
        let times = [self.poll_at, slots.next_free()];
        times.into_iter().flatten().fold(deadline, Instant::min)
    }

    /// Waits until a slot may be free.
    pub(super) async fn sleep(&mut self, slots: &Slots, wakes: Instant) {
        tokio::select! {
            biased;
            () = slots.changed.notified() => {}
            () = self.signal(slots) => {}
            () = sleep_until(wakes) => {
                if self.poll_at.is_some_and(|poll_at| poll_at <= wakes) {
                    self.poll(slots);
                }
            }
        }
    }

    /// Marks slots for a try that no signal asked for: one slot with signals, and some without.
    fn poll(&mut self, slots: &Slots) {
        self.pause = (self.pause * 2).min(self.longest_pause);
        for watch in self.watches.iter_mut().filter(|it| matches!(it, SlotWatch::NoSignals)) {
            *watch = SlotWatch::NotAsked;
        }
        slots.poll(Self::POLLED_AT_ONCE, false, |number| self.has_signals(number));
        slots.poll(1, true, |number| self.has_signals(number));
    }

    fn has_signals(&self, number: usize) -> bool {
        matches!(self.watches.get(number), Some(SlotWatch::Watching(_)))
    }

    /// Resolves at the next signal, and marks its slot.
    async fn signal(&mut self, slots: &Slots) {
        poll_fn(|context| self.poll_watches(context, slots)).await;
    }

    fn poll_watches(&mut self, context: &mut Context<'_>, slots: &Slots) -> Poll<()> {
        let mut may_be_free = false;
        for (number, slot) in self.watches.iter_mut().enumerate() {
            let SlotWatch::Watching(signal) = slot else { continue };
            if let Poll::Ready(watch) = signal.as_mut().poll(context) {
                may_be_free = true;
                slots.mark_maybe_free(u32::try_from(number).unwrap_or(u32::MAX));
                *slot = if watch.is_over() {
                    SlotWatch::NotAsked
                } else {
                    SlotWatch::Watching(next_signal(watch))
                };
            }
        }
        if may_be_free { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn next_signal(mut watch: KeyWatch) -> Pin<Box<dyn Future<Output = KeyWatch> + Send>> {
    Box::pin(async move {
        watch.changed().await;
        watch
    })
}
