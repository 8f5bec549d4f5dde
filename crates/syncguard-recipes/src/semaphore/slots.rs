//! What this process knows of the slots.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncguard_core::authoring::pause::random_part;
use syncguard_core::{Contention, Key, LockError};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::key;
use super::pace::Pace;

/// How long a slot counts as held of which the store has not said until when.
const UNSAID: Duration = Duration::from_millis(500);

/// The slots of a semaphore, as its clones in this process share them.
pub(super) struct Slots {
    key: Key,
    state: Mutex<State>,
    /// A slot may be free: for the one that waits.
    pub(super) news: Notify,
}

struct State {
    slots: Vec<Slot>,
    /// How many of them there are at the moment; those above are only given back.
    permits: u32,
    /// Where those begin who know nothing, so that processes spread out.
    first: usize,
    /// Counts what was given back, to tell what was last.
    given_back: u64,
    claims: u64,
    waiting: u32,
    pace: Pace,
    /// Which slot is looked at next, without a reason.
    polled: usize,
}

struct Slot {
    key: Key,
    /// Somebody of this process has it.
    is_ours: bool,
    /// Somebody of this process is trying to get it: which claim that is, and since when.
    claimed: Option<(u64, Instant)>,
    /// Somebody else has it until then at the most, unless it is extended.
    held_until: Option<Instant>,
    /// It may be free all the same.
    is_news: bool,
    /// When this process gave it back last.
    given_back: Option<u64>,
}

/// Which slots are worth a try.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// Those of which nobody knows that they are held.
    News,
    /// All of them, the likely ones first.
    Any,
}

/// A slot that nobody else of this process tries for meanwhile. Dropped, others may.
pub(super) struct Claim {
    pub(super) slots: Arc<Slots>,
    pub(super) number: u32,
    pub(super) key: Key,
    id: u64,
}

/// Somebody waits. Dropped, one less does.
pub(super) struct Waits<'a>(&'a Slots);

impl Slots {
    pub(super) fn new(key: Key, permits: u32) -> Result<Self, LockError> {
        let state = State {
            slots: Vec::new(),
            permits: 0,
            first: 0,
            given_back: 0,
            claims: 0,
            waiting: 0,
            pace: Pace::default(),
            polled: 0,
        };
        let slots = Self { key, state: Mutex::new(state), news: Notify::new() };
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
        if !(1..=key::MAX_PERMITS).contains(&permits) {
            return Err(LockError::invalid_argument(format!(
                "{permits} permits; 1 to {} are allowed",
                key::MAX_PERMITS
            )));
        }
        let mut state = self.state();
        for number in u32::try_from(state.slots.len()).unwrap_or(permits)..permits {
            let key = key::of_slot(&self.key, number)?;
            state.slots.push(Slot {
                key,
                is_ours: false,
                claimed: None,
                held_until: None,
                is_news: false,
                given_back: None,
            });
        }
        state.permits = permits;
        state.first = random_index(permits as usize);
        drop(state);
        self.news.notify_one();
        Ok(())
    }

    /// Somebody begins to wait.
    pub(super) fn wait(&self) -> Waits<'_> {
        self.state().waiting += 1;
        Waits(self)
    }

    pub(super) fn waiting(&self) -> u32 {
        self.state().waiting
    }

    /// The slot that is most likely free, among those that are worth a try and were not tried yet.
    pub(super) fn claim(self: &Arc<Self>, worth: Worth, tried: &[u32]) -> Option<Claim> {
        let now = Instant::now();
        let mut state = self.state();
        let (permits, first) = (state.permits as usize, state.first);
        let number = (0..permits)
            .map(|number| (number + first) % permits)
            .filter(|number| {
                let slot = &state.slots[*number];
                let is_tried = tried.iter().any(|tried| *tried as usize == *number);
                !slot.is_taken_here(now) && !is_tried && (worth == Worth::Any || !slot.is_held(now))
            })
            .min_by_key(|number| state.slots[*number].likelihood(now))?;
        state.claims += 1;
        let id = state.claims;
        let slot = &mut state.slots[number];
        (slot.claimed, slot.is_news) = (Some((id, now)), false);
        let key = slot.key.clone();
        let number = u32::try_from(number).ok()?;
        Some(Claim { slots: Arc::clone(self), number, key, id })
    }

    /// A permit of this process has ended; the store has not said so yet.
    pub(super) fn leaves(&self, number: u32, held_until: Instant) {
        self.with(number, |slot| {
            slot.is_ours = false;
            slot.held_until = Some(held_until);
        });
    }

    /// The store says that this process has given the slot back.
    pub(super) fn given_back(&self, number: u32) {
        let mut state = self.state();
        state.given_back += 1;
        let given_back = state.given_back;
        if let Some(slot) = state.slots.get_mut(number as usize) {
            (slot.held_until, slot.given_back) = (None, Some(given_back));
        }
        drop(state);
        self.news.notify_one();
    }

    /// The slot may be free.
    pub(super) fn hint(&self, number: u32) {
        self.with(number, |slot| slot.is_news = true);
    }

    /// Looks at some slots without a reason: in turn, only those that `is_deaf` picks.
    pub(super) fn poll(&self, most: usize, is_deaf: impl Fn(usize) -> bool) {
        let mut state = self.state();
        let permits = state.permits as usize;
        let from = state.polled;
        let mut picked = 0;
        for step in 0..permits {
            let number = (from + step) % permits;
            if picked < most && is_deaf(number) {
                state.slots[number].is_news = true;
                state.polled = number + 1;
                picked += 1;
            }
        }
    }

    /// The keys of the slots that others have, with their numbers.
    pub(super) fn held_by_others(&self) -> Vec<(usize, Key)> {
        let (state, now) = (self.state(), Instant::now());
        let slots = state.slots.iter().take(state.permits as usize).enumerate();
        let others = slots.filter(|(_, slot)| !slot.is_taken_here(now));
        others.map(|(number, slot)| (number, slot.key.clone())).collect()
    }

    /// When the first of the slots that others have is free at the latest.
    pub(super) fn next_free(&self) -> Option<Instant> {
        let (state, now) = (self.state(), Instant::now());
        let slots = state.slots.iter().take(state.permits as usize);
        slots.filter(|slot| !slot.is_taken_here(now)).filter_map(|slot| slot.held_until).min()
    }

    /// How long others may go first.
    pub(super) fn step_back(&self) -> Duration {
        self.state().pace.step_back(Instant::now())
    }

    fn with(&self, number: u32, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.state().slots.get_mut(number as usize) {
            change(slot);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// A claim that is older has a caller whom nobody polls. The slot can be claimed beside it.
    const LONGEST_CLAIM: Duration = Duration::from_secs(10);

    fn is_taken_here(&self, now: Instant) -> bool {
        self.is_ours || self.claimed.is_some_and(|(_, since)| now < since + Self::LONGEST_CLAIM)
    }

    fn is_held(&self, now: Instant) -> bool {
        !self.is_news && self.held_until.is_some_and(|until| now < until)
    }

    /// The lowest is tried first: what this process had last, what nobody knows anything of, what may
    /// have become free, what is held, by the time that is left.
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
    /// Somebody else has the slot.
    pub(super) fn refused(self, contention: Contention) {
        let held_until = Instant::now() + contention.free_within.unwrap_or(UNSAID);
        self.slots.with(self.number, |slot| {
            // A millisecond, which a store's time is cut to.
            slot.held_until = Some(held_until + Duration::from_millis(1));
        });
        self.slots.state().pace.lost();
    }

    /// The slot is ours, until [`Slots::leaves`].
    pub(super) fn granted(self) -> (Arc<Slots>, u32) {
        let mut state = self.slots.state();
        if state.waiting > 0 {
            state.pace.won(Instant::now());
        } else {
            state.pace.rests();
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
        self.slots.with(self.number, |slot| {
            slot.claimed.take_if(|(id, _)| *id == self.id);
        });
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// A random number below this one.
fn random_index(below: usize) -> usize {
    let below = u64::try_from(below).unwrap_or(1).max(1);
    let random = random_part(Duration::from_millis(below)).as_micros() / 1000;
    usize::try_from(random % u128::from(below)).unwrap_or(0)
}
