//! Tells the semaphore of each release of a slot.

use std::sync::Arc;

use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{LockBackend, LockError, ReleaseResult, forward};

use super::slots::Slots;

/// A backend for the lock of one slot. It tells [`Slots`] when the store has answered a release: that of a guard, of
/// a drop, and one that was tried again in the background.
#[derive(Clone)]
pub(super) struct ReleaseHook<B> {
    pub(super) backend: B,
    pub(super) slots: Arc<Slots>,
    pub(super) number: usize,
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for ReleaseHook<B> {
    type Fence = B::Fence;

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let result = self.backend.release(request).await;
        // Also if the lock was not held any more: the slot may be free.
        if result.is_ok() {
            self.slots.given_back(self.number);
        }
        result
    }

    forward!(backend: acquire, extend, is_locked, lookup);
    forward!(backend: watch, health, inventory, capabilities, client_state);
}
