//! The slots of a semaphore, as this process sees them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::Jitter;
use syncguard_core::authoring::ABANDONED_AFTER;
use syncguard_core::authoring::RetryPauses;
use syncguard_core::authoring::recipes::RecipeQueue;
use syncguard_core::contract::TIME_TOLERANCE;
use syncguard_core::shared::ClientState;
use syncguard_core::{Contention, Key, LockConfig, LockError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::slot_watcher::SlotWatcher;
use crate::settings::counts_no_retries;

/// The most permits that a semaphore may have.
const MAX_PERMITS: u32 = 1024;

/// Stands between the key of the semaphore and the number of a slot.
const INFIX: &str = ":permit:";

/// The longest key of a semaphore: the infix and four digits must still fit a key.
const MAX_KEY_BYTES: usize = Key::MAX_LENGTH_BYTES - INFIX.len() - 4;

/// For how long the head hears no signal after signals in a row that brought nothing. A store may send such signals, and so
/// may any program that is allowed to signal: with the longest pause, they cost 20 requests a second, however many there are
/// and for however many slots.
const DEAF: RetryPauses = RetryPauses {
    first: Duration::from_millis(1),
    longest: Duration::from_millis(50),
    jitter: Jitter::None,
};

/// Answers differ by this much in what they say of one lease.
const NOISE: Duration = Duration::from_millis(5);

/// Shared by the clones of a semaphore in this process.
pub(super) struct Slots {
    pub(super) key: Key,
    /// The callers that wait for a slot.
    pub(super) queue: RecipeQueue<SlotWatcher>,
    state: Mutex<State>,
    /// Wakes the head: a slot may be free.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    /// The current number of permits. Slots above it are only given back.
    permits: usize,
    /// The slot to try or to poll first, without other knowledge. It begins at random, so that processes spread out.
    next: usize,
    /// How many signals in a row have brought nothing, and until when the head hears no other.
    in_vain: u32,
    deaf_until: Option<Instant>,
}

/// The knowledge of this process about a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    MayBeFree,
    /// A signal says that it may be free. It was held until then at the latest.
    Signalled(Instant),
    /// A caller of this process has asked for it at this time.
    Asked(Instant),
    /// A permit of this process has it, and keeps it until then at least.
    Ours(Instant),
    /// It is held until then at the latest, unless its lock is extended.
    Held(Instant),
}

/// A slot for which a caller of this process asks, and then the slot of the caller's permit.
pub(super) struct Claim {
    slots: Arc<Slots>,
    pub(super) number: usize,
    /// The slot as this claim has set it.
    slot: Slot,
    /// The slot before.
    before: Slot,
}

impl Slots {
    pub(super) fn new(
        client: &ClientState,
        config: &LockConfig,
        permits: u32,
    ) -> Result<Self, LockError> {
        config.check()?;
        counts_no_retries(config, "a semaphore")?;
        let key = config.key()?.clone();
        let length = key.expose().len();
        if length > MAX_KEY_BYTES {
            return Err(LockError::invalid_argument(format!(
                "the key of the semaphore has {length} bytes; at most {MAX_KEY_BYTES} are allowed"
            ))
            .with_key(&key));
        }
        let queue = RecipeQueue::new(client, key.clone());
        let slots = Self { key, queue, state: Mutex::default(), changed: Notify::new() };
        slots.set_permits(permits)?;
        Ok(slots)
    }

    /// The key of a slot: the number has no leading zeros.
    pub(super) fn key_of(&self, number: usize) -> Result<Key, LockError> {
        Key::new(format!("{}{INFIX}{number}", self.key.expose()))
    }

    pub(super) fn permits(&self) -> u32 {
        u32::try_from(self.state().permits).unwrap_or(u32::MAX)
    }

    pub(super) fn set_permits(&self, permits: u32) -> Result<(), LockError> {
        if !(1..=MAX_PERMITS).contains(&permits) {
            return Err(LockError::invalid_argument(format!(
                "{permits} permits; 1 to {MAX_PERMITS} are allowed"
            )));
        }
        let mut state = self.state();
        state.permits = permits as usize;
        let slots = state.slots.len().max(state.permits);
        state.slots.resize(slots, Slot::MayBeFree);
        let random = Jitter::Full.of(Duration::from_nanos(permits.into())).as_nanos();
        state.next = usize::try_from(random).unwrap_or(0);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Claims the slot that is most likely free, among those that were not tried yet. Slots that are known to be held
    /// count only `with_held`.
    pub(super) fn claim(self: &Arc<Self>, with_held: bool, tried: &[usize]) -> Option<Claim> {
        let now = Instant::now();
        let mut state = self.state();
        let untried = state.of_others(state.next, now).filter(|it| !tried.contains(it));
        let held_until = untried.map(|number| (state.slots[number].held_until(), number));
        let wanted = held_until.filter(|(until, _)| with_held || *until <= Some(now));
        let (_, number) = wanted.min_by_key(|(until, _)| *until)?;
        let before = std::mem::replace(&mut state.slots[number], Slot::Asked(now));
        Some(Claim { slots: Arc::clone(self), number, slot: Slot::Asked(now), before })
    }

    /// The store has confirmed a release by this process.
    pub(super) fn given_back(&self, number: usize) {
        self.mark_maybe_free(number);
        self.queue.on_released();
        self.changed.notify_one();
    }

    /// A slot may be free that no permit of this process has. An answer that is still to come may be older, and does not
    /// count.
    pub(super) fn mark_maybe_free(&self, number: usize) {
        self.set(number, Slot::MayBeFree, |slot| !matches!(slot, Slot::Ours(_)));
    }

    /// The store has signalled that a slot may be free.
    pub(super) fn on_signal(&self, number: usize) {
        let mut state = self.state();
        let Some(slot) = state.slots.get_mut(number) else { return };
        *slot = match *slot {
            Slot::Held(until) | Slot::Signalled(until) => Slot::Signalled(until),
            ours @ Slot::Ours(_) => ours,
            Slot::MayBeFree | Slot::Asked(_) => Slot::MayBeFree,
        };
    }

    /// Resolves when the head hears signals again.
    pub(super) async fn hears(&self) {
        let until = self.state().deaf_until;
        if let Some(until) = until {
            sleep_until(until).await;
        }
    }

    /// The store has answered a try of a slot; `is_news` says whether a signal was right that the slot had changed.
    fn on_answer(&self, is_news: bool) {
        let mut state = self.state();
        if is_news {
            (state.in_vain, state.deaf_until) = (0, None);
        } else {
            state.in_vain = state.in_vain.saturating_add(1);
            state.deaf_until = Some(Instant::now() + DEAF.pause(state.in_vain));
        }
    }

    /// Marks so many slots of other processes, in turn, for a try that no signal asked for.
    pub(super) fn poll(&self, most: usize) {
        let mut state = self.state();
        let others = state.of_others(state.next, Instant::now());
        for number in others.take(most).collect::<Vec<_>>() {
            state.slots[number] = Slot::MayBeFree;
            state.next = number + 1;
        }
    }

    /// The slots that this process neither has nor asks for, with their keys.
    pub(super) fn of_others(&self) -> Vec<(usize, Key)> {
        let state = self.state();
        let others = state.of_others(0, Instant::now());
        others.filter_map(|number| Some((number, self.key_of(number).ok()?))).collect()
    }

    /// When the first slot of another process is free at the latest.
    pub(super) fn next_free(&self) -> Option<Instant> {
        let state = self.state();
        state.slots.iter().take(state.permits).filter_map(|slot| slot.held_until()).min()
    }

    /// The answer for a caller that does not wait.
    pub(super) fn contention(&self) -> Contention {
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        self.next_free().map(left).map_or(Contention::default(), Contention::free_within)
    }

    /// Sets a slot if it is so. Returns whether it was.
    fn set(&self, number: usize, news: Slot, if_it_is: impl FnOnce(Slot) -> bool) -> bool {
        let mut state = self.state();
        let slot = state.slots.get_mut(number).filter(|slot| if_it_is(**slot));
        slot.map(|slot| *slot = news).is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change leaves the state half done, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The slots that this process neither has nor asks for, from this one on.
    fn of_others(&self, from: usize, now: Instant) -> impl Iterator<Item = usize> {
        let numbers = (from..from + self.permits).map(|number| number % self.permits);
        numbers.filter(move |number| match self.slots[*number] {
            Slot::Ours(_) => false,
            // After that time, the future of the caller is not polled any more.
            Slot::Asked(at) => at + ABANDONED_AFTER <= now,
            Slot::MayBeFree | Slot::Signalled(_) | Slot::Held(_) => true,
        })
    }
}

impl Slot {
    fn held_until(self) -> Option<Instant> {
        if let Self::Held(until) = self { Some(until) } else { None }
    }
}

impl Claim {
    /// Another process has the slot, until then at the latest.
    pub(super) fn contended(self, held_until: Instant) {
        self.slots.queue.on_rival_seen();
        if let Slot::Signalled(until) = self.before {
            let differ = until.max(held_until).saturating_duration_since(until.min(held_until));
            self.slots.on_answer(differ >= NOISE);
        }
        self.end(Slot::Held(held_until));
    }

    /// This process has the slot until the claim is dropped, which is the end of the permit.
    pub(super) fn granted(mut self, min_hold: Duration) -> Self {
        self.slots.queue.on_granted();
        self.slots.on_answer(true);
        self.slot = Slot::Ours(Instant::now() + min_hold);
        self.slots.set(self.number, self.slot, |_| true);
        self
    }

    /// Sets the slot, unless others have set it since. Returns whether it was set.
    fn end(&self, slot: Slot) -> bool {
        self.slots.set(self.number, slot, |present| present == self.slot)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Slot::Ours(kept_until) = self.slot {
            // The store confirms the release soon, or at least says more to a later attempt.
            self.end(Slot::Held(kept_until.max(Instant::now() + TIME_TOLERANCE)));
        } else if self.end(Slot::MayBeFree) {
            // The store has not answered, so the head asks.
            self.slots.changed.notify_one();
        }
    }
}
