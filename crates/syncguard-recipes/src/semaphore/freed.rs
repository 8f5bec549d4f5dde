//! Hearing that a slot was given back, however that came about.

use std::sync::Arc;

use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{LockBackend, LockError, ReleaseResult, forward};

use super::slots::Slots;

/// A backend for the lock of one slot, which tells the semaphore when the store has taken it back: after a
/// release, a drop, and a release that was tried again in the background.
#[derive(Clone)]
pub(super) struct Freed<B> {
    pub(super) backend: B,
    pub(super) slots: Arc<Slots>,
    pub(super) number: u32,
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Freed<B> {
    type Fence = B::Fence;

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let result = self.backend.release(request).await;
        // Also where it was not held any more: somebody else may have it, or nobody.
        if result.is_ok() {
            self.slots.given_back(self.number);
        }
        result
    }

    forward!(backend: acquire, extend, is_locked, lookup);
    forward!(backend: watch, inventory, capabilities, client_state);
}
