//! The slots of a semaphore, as this process sees them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::authoring::RecipeQueue;
use syncguard_core::authoring::pause::random_part;
use syncguard_core::shared::ClientState;
use syncguard_core::{Contention, Key, LockError};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::slot_key;

/// Shared by the clones of a semaphore in this process.
pub(super) struct Slots {
    pub(super) key: Key,
    /// The callers that wait for a slot.
    pub(super) queue: RecipeQueue,
    state: Mutex<State>,
    /// Wakes the head: a slot may be free.
    pub(super) changed: Notify,
}

struct State {
    slots: Vec<Slot>,
    /// The current number of permits. Slots above it are only given back.
    permits: usize,
    /// The first slot to try without other knowledge. It is random, so that processes spread out.
    first: usize,
    next_polled: usize,
}

struct Slot {
    key: Key,
    /// A permit of this process has the slot.
    is_ours: bool,
    /// Since when a caller of this process tries for the slot.
    claimed: Option<Instant>,
    /// Another process holds the slot until then at the latest, unless it extends the lock.
    held_until: Option<Instant>,
    /// The slot may be free before `held_until`.
    is_maybe_free: bool,
}

/// Keeps other callers of this process from trying for a slot, until it is dropped.
pub(super) struct Claim {
    pub(super) slots: Arc<Slots>,
    pub(super) number: usize,
    pub(super) key: Key,
    since: Instant,
    /// The slot may be free, and the store has not answered.
    hint: bool,
}

impl Slots {
    pub(super) fn new(client: &ClientState, key: Key, permits: u32) -> Result<Self, LockError> {
        let state = State { slots: Vec::new(), permits: 0, first: 0, next_polled: 0 };
        let slots = Self {
            queue: RecipeQueue::new(client, key.clone()),
            key,
            state: Mutex::new(state),
            changed: Notify::new(),
        };
        slots.set_permits(permits)?;
        Ok(slots)
    }

    pub(super) fn permits(&self) -> u32 {
        u32::try_from(self.state().permits).unwrap_or(u32::MAX)
    }

    pub(super) fn set_permits(&self, permits: u32) -> Result<(), LockError> {
        if !(1..=slot_key::MAX_PERMITS).contains(&permits) {
            return Err(LockError::invalid_argument(format!(
                "{permits} permits; 1 to {} are allowed",
                slot_key::MAX_PERMITS
            )));
        }
        let mut state = self.state();
        for number in u32::try_from(state.slots.len()).unwrap_or(permits)..permits {
            let key = slot_key::of_slot(&self.key, number)?;
            let (claimed, held_until) = (None, None);
            let slot = Slot { key, is_ours: false, claimed, held_until, is_maybe_free: false };
            state.slots.push(slot);
        }
        state.permits = permits as usize;
        let random = random_part(Duration::from_nanos(permits.into())).as_nanos();
        state.first = usize::try_from(random).unwrap_or(0);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Claims the slot that is most likely free, among those that were not tried yet. Slots that are known to be held
    /// count only `with_held`.
    pub(super) fn claim(self: &Arc<Self>, with_held: bool, tried: &[usize]) -> Option<Claim> {
        let now = Instant::now();
        let mut state = self.state();
        let (permits, first) = (state.permits, state.first);
        let number = (0..permits)
            .map(|number| (number + first) % permits)
            .filter(|number| {
                let slot = &state.slots[*number];
                let is_wanted = with_held || !slot.is_held(now);
                is_wanted && !slot.is_taken_here(now) && !tried.contains(number)
            })
            .min_by_key(|number| {
                let slot = &state.slots[*number];
                (slot.is_held(now), slot.held_until)
            })?;
        let slot = &mut state.slots[number];
        slot.claimed = Some(now);
        let hint = std::mem::take(&mut slot.is_maybe_free);
        let key = slot.key.clone();
        drop(state);
        Some(Claim { slots: Arc::clone(self), number, key, since: now, hint })
    }

    /// A permit of this process has ended. The store has not confirmed its release yet.
    pub(super) fn vacated(&self, number: usize, held_until: Instant) {
        self.with(number, |slot| (slot.is_ours, slot.held_until) = (false, Some(held_until)));
    }

    /// The store has confirmed an extend by this process. After the end of a permit, that is its minimum hold: the slot
    /// is free when it is over.
    pub(super) fn extended(&self, number: usize, held_until: Instant) {
        self.with(number, |slot| {
            if !slot.is_ours {
                slot.held_until = Some(held_until);
            }
        });
        self.changed.notify_one();
    }

    /// The store has confirmed a release by this process. An answer to a claim that says otherwise is older.
    pub(super) fn given_back(&self, number: usize) {
        self.with(number, |slot| (slot.held_until, slot.is_maybe_free) = (None, true));
        self.queue.on_released();
        self.changed.notify_one();
    }

    pub(super) fn mark_maybe_free(&self, number: usize) {
        self.with(number, |slot| slot.is_maybe_free = true);
    }

    /// Marks so many slots of other processes, in turn, for a try that no signal asked for.
    pub(super) fn poll(&self, most: usize) {
        let (mut state, now) = (self.state(), Instant::now());
        let (permits, from) = (state.permits, state.next_polled);
        let numbers = (0..permits).map(|step| (from + step) % permits);
        let polled = numbers.filter(|number| !state.slots[*number].is_taken_here(now));
        for number in polled.take(most).collect::<Vec<_>>() {
            state.slots[number].is_maybe_free = true;
            state.next_polled = number + 1;
        }
    }

    /// The numbers and keys of the slots that this process neither has nor tries for.
    pub(super) fn held_by_others(&self) -> impl Iterator<Item = (usize, Key)> + use<> {
        let (state, now) = (self.state(), Instant::now());
        let slots = state.slots.iter().take(state.permits).enumerate();
        let others = slots.filter(|(_, slot)| !slot.is_taken_here(now));
        others.map(|(number, slot)| (number, slot.key.clone())).collect::<Vec<_>>().into_iter()
    }

    /// When the first slot of another process is free at the latest.
    pub(super) fn next_free(&self) -> Option<Instant> {
        let (state, now) = (self.state(), Instant::now());
        let slots = state.slots.iter().take(state.permits);
        slots.filter(|slot| !slot.is_taken_here(now)).filter_map(|slot| slot.held_until).min()
    }

    fn with(&self, number: usize, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.state().slots.get_mut(number) {
            change(slot);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change leaves the state half done, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn is_taken_here(&self, now: Instant) -> bool {
        /// The caller of an older claim is not being polled, so another caller may claim the slot as well.
        const LONGEST_CLAIM: Duration = Duration::from_secs(10);
        self.is_ours || self.claimed.is_some_and(|since| now < since + LONGEST_CLAIM)
    }

    fn is_held(&self, now: Instant) -> bool {
        !self.is_maybe_free && self.held_until.is_some_and(|until| now < until)
    }
}

impl Claim {
    /// Another process has the slot.
    pub(super) fn contended(mut self, contention: Contention) {
        /// If the store did not say until when, the slot is asked for again after this.
        const UNKNOWN: Duration = Duration::from_millis(500);
        // Stores cut times to milliseconds.
        let free_within = contention.free_within.unwrap_or(UNKNOWN) + Duration::from_millis(1);
        let held_until = Instant::now() + free_within;
        self.slots.with(self.number, |slot| slot.held_until = Some(held_until));
        self.slots.queue.on_rival_seen();
        self.hint = false;
    }

    /// This process has the slot until [`Slots::vacated`].
    pub(super) fn granted(mut self) -> (Arc<Slots>, usize) {
        self.hint = false;
        self.slots.queue.on_granted();
        self.slots.with(self.number, |slot| (slot.is_ours, slot.held_until) = (true, None));
        (Arc::clone(&self.slots), self.number)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.slots.with(self.number, |slot| {
            slot.claimed.take_if(|since| *since == self.since);
            slot.is_maybe_free |= self.hint;
        });
        if self.hint {
            self.slots.changed.notify_one();
        }
    }
}
