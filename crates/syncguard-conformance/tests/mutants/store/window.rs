//! Fence windows.

use std::time::Duration;

use syncguard_core::authoring::recipes::{FenceWindow, Refusal};
use syncguard_core::contract::AcquireRequest;
use syncguard_core::{Fence, LockError};

use super::{Store, Stored, timestamp};
use crate::mutants::flaws::Flaw;

impl Store {
    /// Why the window of a request refuses it, if it does. The request's lock id holds nothing.
    pub(super) fn refusal(
        &mut self,
        request: &AcquireRequest,
        is_held: bool,
        now: u64,
    ) -> Result<Option<Refusal>, LockError> {
        let Some(window) = request.fence_window.filter(|_| !self.has(Flaw::ignores_windows)) else {
            return Ok(None);
        };
        let counter = self.counter(&request.key);
        let last = Fence::new(self.fences.get(&counter).copied().unwrap_or(0))?;
        let early = self.too_early(&window, now)?;
        let time_counts = !is_held || !self.has(Flaw::says_locked_before_too_early);
        let refusal = match self.taken(&window, last, is_held) {
            Some(_) if early.is_some() && self.has(Flaw::says_too_early_before_taken) => early,
            None if time_counts => early,
            taken => taken,
        };
        if refusal.is_some() && self.has(Flaw::uses_up_fences_of_refused_windows) {
            self.fences.insert(counter, last.get() + 1);
        }
        if refusal.is_some() && !is_held && self.has(Flaw::locks_what_a_window_refuses) {
            let lock = self.record(request, now, last.get());
            let name = self.name(&request.key);
            self.locks.insert(name, Stored::Lock(lock));
        }
        Ok(refusal)
    }

    fn taken(&self, window: &FenceWindow, last: Fence, is_held: bool) -> Option<Refusal> {
        let looks = match self.flaw {
            Some(Flaw::says_locked_before_taken) => !is_held,
            Some(Flaw::forgets_used_up_windows_of_free_keys) => is_held,
            Some(Flaw::grants_at_the_limit_of_windows) => last > window.below(),
            Some(Flaw::rounds_the_limit_of_windows) => last.get() / 10 > window.below().get() / 10,
            _ => true,
        };
        let taken = window.refuses_counter(last).filter(|_| looks);
        match taken {
            Some(_) if self.has(Flaw::says_the_limit_for_the_counter) => {
                Some(Refusal::Taken { counter: window.below() })
            }
            taken => taken,
        }
    }

    fn too_early(&self, window: &FenceWindow, now: u64) -> Result<Option<Refusal>, LockError> {
        let now = match self.flaw {
            Some(Flaw::ignores_the_time_of_windows) => return Ok(None),
            Some(Flaw::opens_windows_a_millisecond_late) => now - 1,
            Some(Flaw::opens_windows_a_millisecond_early) => now + 1,
            _ => now,
        };
        let early = window.refuses_time(timestamp(now)?);
        Ok(match early {
            Some(_) if self.has(Flaw::never_says_how_long_a_window_is_shut) => {
                Some(Refusal::TooEarly { wait: Duration::ZERO })
            }
            early => early,
        })
    }

    /// The fence of a lock that is granted, and the counter after that.
    pub(super) fn fences_of(&self, request: &AcquireRequest, next: u64) -> (u64, u64) {
        let Some(window) = request.fence_window.filter(|_| !self.has(Flaw::ignores_windows)) else {
            return (next, next);
        };
        let first = window.at_least().get();
        match self.flaw {
            Some(Flaw::gives_windows_the_next_fence) => (next, next.max(first)),
            Some(Flaw::gives_windows_their_first_fence_again) => (first, next.max(first)),
            Some(Flaw::counts_windows_as_one_fence) => (next.max(first), next),
            _ => (next.max(first), next.max(first)),
        }
    }
}
