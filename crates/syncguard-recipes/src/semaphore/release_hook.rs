//! Tells the semaphore of each release of a slot.

use std::sync::Arc;

use syncguard_core::contract::{ExtendRequest, ReleaseRequest, TIME_TOLERANCE};
use syncguard_core::{ExtendResult, LockBackend, LockError, ReleaseResult, forward};
use tokio::time::Instant;

use super::slots::Slots;

/// A backend for the lock of one slot. It tells [`Slots`] when the store has answered a release: that of a guard, of
/// a drop, and one that was tried again in the background. The release of a permit with a minimum hold is an extend.
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

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let ttl = request.ttl.as_duration();
        let result = self.backend.extend(request).await;
        if let Ok(ExtendResult::Extended { .. }) = &result {
            self.slots.extended(self.number, Instant::now() + ttl + TIME_TOLERANCE);
        }
        result
    }

    forward!(backend: acquire, is_locked, lookup);
    forward!(backend: watch, inventory, capabilities, client_state);
}
