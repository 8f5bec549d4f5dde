//! The slots of a semaphore, as this process sees them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::authoring::pause::random_part;
use syncguard_core::{Contention, Key, LockError};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::fairness::Fairness;
use super::slot_key;

/// How long a slot counts as held if the store did not say until when.
const UNKNOWN_EXPIRY: Duration = Duration::from_millis(500);

/// Shared by the clones of a semaphore in this process.
pub(super) struct Slots {
    key: Key,
    state: Mutex<State>,
    /// Wakes the head: a slot may be free.
    pub(super) changed: Notify,
}

struct State {
    slots: Vec<Slot>,
    /// The current number of permits. Slots above it are only given back.
    permits: u32,
    /// The first slot to try without other knowledge. It is random, so that processes spread out.
    first: usize,
    /// Counts releases, to order them.
    given_back: u64,
    claims: u64,
    waiting: u32,
    fairness: Fairness,
    /// The slot that the next poll begins with, among the slots without signals and among those with signals.
    next_polled: [usize; 2],
}

struct Slot {
    key: Key,
    /// A permit of this process has the slot.
    is_ours: bool,
    /// The id of the claim with which a caller of this process tries for the slot, and its start.
    claimed: Option<(u64, Instant)>,
    /// Another process holds the slot until then at the latest, unless it extends the lock.
    held_until: Option<Instant>,
    /// The slot may be free before `held_until`.
    is_maybe_free: bool,
    /// The number of this process's last release of the slot.
    given_back: Option<u64>,
}

/// Which slots to try.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotFilter {
    /// Slots that are not known to be held.
    LikelyFree,
    /// All slots, the likeliest first.
    All,
}

/// Keeps other callers of this process from trying for a slot, until it is dropped.
pub(super) struct Claim {
    pub(super) slots: Arc<Slots>,
    pub(super) number: u32,
    pub(super) key: Key,
    id: u64,
    /// The state of the slot when it was claimed.
    was_maybe_free: bool,
    given_back: Option<u64>,
    /// The store has not answered.
    is_open: bool,
}

impl Slots {
    pub(super) fn new(key: Key, permits: u32) -> Result<Self, LockError> {
        let state = State {
            slots: Vec::new(),
            permits: 0,
            first: 0,
            given_back: 0,
            claims: 0,
            waiting: 0,
            fairness: Fairness::default(),
            next_polled: [0; 2],
        };
        let slots = Self { key, state: Mutex::new(state), changed: Notify::new() };
        slots.set_permits(permits)?;
        Ok(slots)
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn permits(&self) -> u32 {
        self.state().permits
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
            state.slots.push(Slot {
                key,
                is_ours: false,
                claimed: None,
                held_until: None,
                is_maybe_free: false,
                given_back: None,
            });
        }
        state.permits = permits;
        state.first = random_index(permits as usize);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    pub(super) fn add_waiter(&self) {
        self.state().waiting += 1;
    }

    /// Returns the number of waiters that are left.
    pub(super) fn remove_waiter(&self) -> u32 {
        let mut state = self.state();
        state.waiting -= 1;
        state.waiting
    }

    pub(super) fn waiting(&self) -> u32 {
        self.state().waiting
    }

    /// Claims the slot that is most likely free, among those that pass the filter and were not tried yet.
    pub(super) fn claim(self: &Arc<Self>, filter: SlotFilter, tried: &[u32]) -> Option<Claim> {
        let now = Instant::now();
        let mut state = self.state();
        let (permits, first) = (state.permits as usize, state.first);
        let number = (0..permits)
            .map(|number| (number + first) % permits)
            .filter(|number| {
                let slot = &state.slots[*number];
                let is_tried = tried.iter().any(|tried| *tried as usize == *number);
                !slot.is_taken_here(now)
                    && !is_tried
                    && (filter == SlotFilter::All || !slot.is_held(now))
            })
            .min_by_key(|number| state.slots[*number].likelihood(now))?;
        state.claims += 1;
        let id = state.claims;
        let slot = &mut state.slots[number];
        slot.claimed = Some((id, now));
        Some(Claim {
            slots: Arc::clone(self),
            number: u32::try_from(number).ok()?,
            key: slot.key.clone(),
            id,
            was_maybe_free: std::mem::take(&mut slot.is_maybe_free),
            given_back: slot.given_back,
            is_open: true,
        })
    }

    /// A permit of this process has ended. The store has not confirmed its release yet.
    pub(super) fn vacated(&self, number: u32, held_until: Instant) {
        self.with(number, |slot| {
            slot.is_ours = false;
            slot.held_until = Some(held_until);
        });
    }

    /// The store has confirmed an extend by this process. After the end of a permit, that is its minimum hold: the slot
    /// is free when it is over.
    pub(super) fn extended(&self, number: u32, held_until: Instant) {
        let mut state = self.state();
        if let Some(slot) = state.slots.get_mut(number as usize)
            && !slot.is_ours
        {
            slot.held_until = Some(held_until);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// The store has confirmed a release by this process.
    pub(super) fn given_back(&self, number: u32) {
        let mut state = self.state();
        state.given_back += 1;
        let given_back = state.given_back;
        if let Some(slot) = state.slots.get_mut(number as usize) {
            (slot.held_until, slot.given_back) = (None, Some(given_back));
        }
        drop(state);
        self.changed.notify_one();
    }

    pub(super) fn mark_maybe_free(&self, number: u32) {
        self.with(number, |slot| slot.is_maybe_free = true);
    }

    /// Marks up to `most` slots of other processes for a try that no signal asked for: in turn, among those for which
    /// `has_signals` answers this.
    pub(super) fn poll(&self, most: usize, wanted: bool, has_signals: impl Fn(usize) -> bool) {
        let (mut state, now) = (self.state(), Instant::now());
        let permits = state.permits as usize;
        let from = state.next_polled[usize::from(wanted)];
        let numbers = (0..permits).map(|step| (from + step) % permits);
        let wanted_slots = numbers.filter(|number| {
            has_signals(*number) == wanted && !state.slots[*number].is_taken_here(now)
        });
        for number in wanted_slots.take(most).collect::<Vec<_>>() {
            state.slots[number].is_maybe_free = true;
            state.next_polled[usize::from(wanted)] = number + 1;
        }
    }

    /// The numbers and keys of the slots that this process neither has nor tries for.
    pub(super) fn held_by_others(&self) -> Vec<(usize, Key)> {
        let (state, now) = (self.state(), Instant::now());
        let slots = state.slots.iter().take(state.permits as usize).enumerate();
        let others = slots.filter(|(_, slot)| !slot.is_taken_here(now));
        others.map(|(number, slot)| (number, slot.key.clone())).collect()
    }

    /// When the first slot of another process is free at the latest.
    pub(super) fn next_free(&self) -> Option<Instant> {
        let (state, now) = (self.state(), Instant::now());
        let slots = state.slots.iter().take(state.permits as usize);
        slots.filter(|slot| !slot.is_taken_here(now)).filter_map(|slot| slot.held_until).min()
    }

    /// How long this process pauses so that others can go first.
    pub(super) fn fair_pause(&self) -> Duration {
        self.state().fairness.pause(Instant::now())
    }

    fn with(&self, number: u32, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.state().slots.get_mut(number as usize) {
            change(slot);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change leaves the state half done, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The caller of an older claim is not being polled, so another caller may claim the slot as well.
    const LONGEST_CLAIM: Duration = Duration::from_secs(10);

    fn is_taken_here(&self, now: Instant) -> bool {
        self.is_ours || self.claimed.is_some_and(|(_, since)| now < since + Self::LONGEST_CLAIM)
    }

    fn is_held(&self, now: Instant) -> bool {
        !self.is_maybe_free && self.held_until.is_some_and(|until| now < until)
    }

    /// The lowest is tried first: the slot that this process gave back last, then slots that are unknown or may have
    /// become free, then held slots by the time that is left.
    fn likelihood(&self, now: Instant) -> (u8, u64, Duration) {
        let left =
            self.held_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        match self.given_back {
            _ if self.is_held(now) => (2, 0, left),
            Some(given_back) if self.held_until.is_none() => (0, u64::MAX - given_back, left),
            _ => (1, 0, left),
        }
    }
}

impl Claim {
    /// Another process has the slot.
    pub(super) fn contended(mut self, contention: Contention) {
        let held_until = Instant::now() + contention.free_within.unwrap_or(UNKNOWN_EXPIRY);
        self.slots.with(self.number, |slot| {
            // A release by this process may have come after the answer.
            if slot.given_back == self.given_back {
                // Stores cut times to milliseconds.
                slot.held_until = Some(held_until + Duration::from_millis(1));
            }
        });
        self.slots.state().fairness.lost();
        self.is_open = false;
    }

    /// This process has the slot until [`Slots::vacated`].
    pub(super) fn granted(mut self) -> (Arc<Slots>, u32) {
        self.is_open = false;
        let mut state = self.slots.state();
        if state.waiting > 0 {
            state.fairness.won(Instant::now());
        } else {
            state.fairness.rest();
        }
        if let Some(slot) = state.slots.get_mut(self.number as usize) {
            (slot.is_ours, slot.held_until) = (true, None);
        }
        drop(state);
        (Arc::clone(&self.slots), self.number)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let is_hint_unused = self.is_open && self.was_maybe_free;
        self.slots.with(self.number, |slot| {
            slot.claimed.take_if(|(id, _)| *id == self.id);
            slot.is_maybe_free |= is_hint_unused;
        });
        if is_hint_unused {
            self.slots.changed.notify_one();
        }
    }
}

/// A random number from 0 to `below - 1`.
fn random_index(below: usize) -> usize {
    let random = random_part(Duration::from_nanos(below as u64)).as_nanos();
    usize::try_from(random).unwrap_or(0) % below
}
