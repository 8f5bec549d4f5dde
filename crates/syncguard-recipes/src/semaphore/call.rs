//! One call for a permit.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::answer_patience;
use syncguard_core::authoring::recipes::{RideOut, unanswered};
use syncguard_core::contract::TIME_STEP;
use syncguard_core::{ErrorCode, LockBackend, LockError, TryAcquired, try_acquire};
use tokio::time::{Instant, sleep, timeout};

use super::Semaphore;
use super::permit::Permit;
use super::release_hook::ReleaseHook;
use super::slots::{Claim, Slots};

pub(super) struct Call<'a, B> {
    semaphore: &'a Semaphore<B>,
    slots: &'a Arc<Slots>,
    began: Instant,
    limit: Duration,
    /// Whether the caller asks again later, so that it need not ask for slots that are known to be held.
    waits: bool,
    /// The longest time that an answer took; `None` before the first answer.
    longest_answer: Option<Duration>,
    outage: RideOut,
    /// Whether the store has answered since its last failure.
    was_answered: bool,
}

impl<'a, B: LockBackend> Call<'a, B> {
    pub(super) fn new(
        semaphore: &'a Semaphore<B>,
        slots: &'a Arc<Slots>,
        limit: Duration,
        waits: bool,
    ) -> Self {
        let outage = RideOut::new(semaphore.config.ride_out());
        let (began, longest_answer) = (Instant::now(), None);
        Self { semaphore, slots, began, limit, waits, longest_answer, outage, was_answered: false }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.began.elapsed())
    }

    /// Takes a permit, and waits for it if the caller waits.
    pub(super) async fn acquire(&mut self) -> Result<Permit<B>, LockError> {
        let Self { semaphore: Semaphore { backend, config, .. }, slots, .. } = *self;
        let is_behind = slots.queue.has_waiters() || (self.waits && slots.queue.owes_a_pause());
        if !is_behind && let Some(permit) = self.try_through_outage().await? {
            return Ok(permit);
        }
        if !self.waits {
            return Err(self.all_held());
        }
        let options = config.acquisition();
        let (mut polls, mut polled_at, mut place) = (1, Instant::now(), slots.queue.enter());
        while place.may_ask(self.left()).await {
            if let Some(permit) = self.try_through_outage().await? {
                return Ok(permit);
            }
            let others = slots.of_others();
            for number in place.watch().watch(others, backend, &options, self.left()).await {
                slots.mark_maybe_free(number);
                slots.changed.notify_one();
            }
            let pause = place.watch().pause(options.pause(polls));
            let now = Instant::now();
            let until_poll = pause.saturating_sub(now.saturating_duration_since(polled_at));
            let until_free = slots.next_free().map(|at| at.saturating_duration_since(now));
            let woken =
                place.sleep(until_poll.min(until_free.unwrap_or(until_poll)).min(self.left()));
            let watcher = place.watch();
            let signal = async {
                slots.hears().await;
                watcher.signal().await
            };
            tokio::select! {
                biased;
                () = slots.changed.notified() => {}
                number = signal => slots.on_signal(number),
                () = woken => {}
            }
            if now.elapsed() >= until_poll {
                (polls, polled_at) = (polls + 1, Instant::now());
                slots.poll(watcher.on_poll());
            }
        }
        Err(self.all_held())
    }

    /// Tries each slot once, and again after a failure that is ridden out. Then the caller has the whole limit anew, as with
    /// any lock.
    async fn try_through_outage(&mut self) -> Result<Option<Permit<B>>, LockError> {
        loop {
            let error = match self.try_slots().await {
                Err(error) => error,
                tried => return tried,
            };
            let was_answered = std::mem::take(&mut self.was_answered);
            let pause = self.outage.pause(error.code(), was_answered);
            let Some(pause) = pause else { return Err(error) };
            sleep(pause).await;
            self.began = Instant::now();
        }
    }

    /// Tries each slot once.
    pub(super) async fn try_slots(&mut self) -> Result<Option<Permit<B>>, LockError> {
        let mut tried = Vec::new();
        while let Some(claim) = self.slots.claim(!self.waits, &tried) {
            tried.push(claim.number);
            let sent = Instant::now();
            let answer = timeout(self.left(), self.try_slot(claim)).await;
            let (took, longest) = (sent.elapsed(), &mut self.longest_answer);
            match answer {
                Ok(Ok(None)) => {
                    *longest = (*longest).max(Some(took));
                    self.was_answered = true;
                }
                Ok(tried) => return tried,
                // The limit is over, and the store answers.
                Err(_) if longest.is_some_and(|longest| took <= answer_patience(longest)) => {
                    return Err(self.all_held());
                }
                Err(_) => return Err(unanswered(&self.slots.key, self.limit)),
            }
        }
        Ok(None)
    }

    async fn try_slot(&self, claim: Claim) -> Result<Option<Permit<B>>, LockError> {
        let Self { semaphore: Semaphore { backend, config, .. }, slots, .. } = *self;
        let lock = config.clone().with_key(slots.key_of(claim.number)?);
        let (backend, slots) = (backend.clone(), Arc::clone(slots));
        let slot = ReleaseHook { backend, slots, number: claim.number };
        // Boxed: otherwise the driver's future would be part of every caller's future.
        match Box::pin(try_acquire(&slot, lock)).await? {
            TryAcquired::Acquired(guard) => {
                let claim = claim.granted(config.min_hold().unwrap_or_default());
                Ok(Some(Permit { claim, guard }))
            }
            TryAcquired::Busy(contention) => {
                // Without a time, the slot is asked for as often as a poll.
                let free_within =
                    contention.free_within.unwrap_or(config.acquisition().max_retry_delay);
                claim.contended(Instant::now() + free_within + TIME_STEP);
                Ok(None)
            }
        }
    }

    fn all_held(&self) -> LockError {
        let Self { semaphore, slots, limit, .. } = self;
        let message =
            format!("all {} permits were still held; the limit is {limit:?}", semaphore.permits());
        LockError::new(ErrorCode::AcquisitionTimeout, message).with_key(&slots.key)
    }
}
