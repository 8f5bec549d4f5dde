//! Where one caller of a process waits for all of them.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use syncguard_core::authoring::pause::jittered;
use syncguard_core::contract::{KeyWatch, WatchRequest};
use syncguard_core::{AcquisitionOptions, LockBackend};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::slots::Slots;
use crate::join::join_all;

/// What is heard of the slots. It is left to the next one that waits.
#[derive(Default)]
pub(super) struct Desk {
    /// By the number of the slot.
    ears: Vec<Ear>,
    /// Before the next look without a reason.
    pause: Duration,
    poll_at: Option<Instant>,
    longest_pause: Duration,
}

/// How one slot is listened to.
enum Ear {
    /// The store was not asked for signals.
    None,
    /// It has none, at the moment.
    Deaf,
    Some(Pin<Box<dyn Future<Output = KeyWatch> + Send>>),
}

impl Desk {
    /// A watch begins within this time, or not at all.
    const LONGEST: Duration = Duration::from_millis(500);
    /// So many slots are looked at together that cannot be heard.
    const DEAF_AT_ONCE: usize = 4;

    /// Another one waits.
    pub(super) fn begin(&mut self, options: &AcquisitionOptions) {
        self.longest_pause = options.max_retry_delay.max(options.retry_delay);
        self.pause = options.retry_delay;
    }

    /// Nobody waits any more.
    pub(super) fn close(&mut self) {
        *self = Self::default();
    }

    /// Listens to those slots that others have and that nobody listens to yet. Whether one of them may be
    /// free.
    pub(super) async fn listen<B: LockBackend>(
        &mut self,
        backend: &B,
        slots: &Slots,
        deadline: Instant,
    ) -> bool {
        let mut unheard = slots.held_by_others();
        unheard.retain(|(number, _)| matches!(self.ears.get(*number), None | Some(Ear::None)));
        let limit = deadline.min(Instant::now() + Self::LONGEST);
        let watches = unheard.into_iter().map(|(number, key)| async move {
            let watch = timeout_at(limit, backend.watch(WatchRequest::new(key))).await;
            (number, watch.ok().flatten())
        });
        let mut is_news = false;
        for (number, watch) in join_all(watches).await {
            if watch.as_ref().is_some_and(|watch| !watch.is_locked()) {
                slots.hint(u32::try_from(number).unwrap_or(u32::MAX));
                is_news = true;
            }
            while self.ears.len() <= number {
                self.ears.push(Ear::None);
            }
            let alive = watch.filter(|watch| !watch.is_over());
            self.ears[number] = alive.map_or(Ear::Deaf, |watch| Ear::Some(listening(watch)));
        }
        is_news
    }

    /// When it looks again without a signal.
    pub(super) fn wakes_at(&mut self, slots: &Slots, deadline: Instant) -> Instant {
        self.poll_at = Some(Instant::now() + jittered(self.pause));
        let times = [self.poll_at, slots.next_free()];
        times.into_iter().flatten().fold(deadline, Instant::min)
    }

    /// Waits until a slot may be free.
    pub(super) async fn sleep(&mut self, slots: &Slots, wakes: Instant) {
        tokio::select! {
            biased;
            () = slots.news.notified() => {}
            () = self.signal(slots) => {}
            () = sleep_until(wakes) => {
                if self.poll_at.is_some_and(|poll_at| poll_at <= wakes) {
                    self.poll(slots);
                }
            }
        }
    }

    /// Looks without a reason: at one slot that can be heard, and at some that cannot.
    fn poll(&mut self, slots: &Slots) {
        self.pause = (self.pause * 2).min(self.longest_pause);
        for ear in self.ears.iter_mut().filter(|ear| matches!(ear, Ear::Deaf)) {
            *ear = Ear::None;
        }
        slots.poll(Self::DEAF_AT_ONCE, |number| !self.hears(number));
        slots.poll(1, |number| self.hears(number));
    }

    fn hears(&self, number: usize) -> bool {
        matches!(self.ears.get(number), Some(Ear::Some(_)))
    }

    /// Resolves at a signal, which is noted.
    async fn signal(&mut self, slots: &Slots) {
        poll_fn(|context| self.poll_ears(context, slots)).await;
    }

    fn poll_ears(&mut self, context: &mut Context<'_>, slots: &Slots) -> Poll<()> {
        let mut is_news = false;
        for (number, ear) in self.ears.iter_mut().enumerate() {
            let Ear::Some(listening_to) = ear else { continue };
            if let Poll::Ready(watch) = listening_to.as_mut().poll(context) {
                is_news = true;
                slots.hint(u32::try_from(number).unwrap_or(u32::MAX));
                *ear = if watch.is_over() { Ear::None } else { Ear::Some(listening(watch)) };
            }
        }
        if is_news { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn listening(mut watch: KeyWatch) -> Pin<Box<dyn Future<Output = KeyWatch> + Send>> {
    Box::pin(async move {
        watch.changed().await;
        watch
    })
}
