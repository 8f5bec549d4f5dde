//! One of the permits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::contract::TIME_TOLERANCE;
use syncguard_core::{
    CancellationToken, Held, LockBackend, LockError, LockGuard, LossReason, ReleaseResult, Ttl,
};
use tokio::time::Instant;

use super::freed::Freed;
use super::slots::Slots;

/// A permit of a [`Semaphore`](crate::Semaphore). Dropping it gives it back in the background.
#[must_use = "dropping the permit gives it back"]
pub struct Permit<B: LockBackend> {
    // The first field is dropped first: the slot is noted as left before the release begins.
    tenancy: Tenancy,
    guard: LockGuard<Freed<B>>,
}

/// A slot that a permit of this process has.
struct Tenancy {
    slots: Arc<Slots>,
    slot: u32,
    ttl: Ttl,
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        let until = Instant::now() + self.ttl.as_duration() + TIME_TOLERANCE;
        self.slots.leaves(self.slot, until);
    }
}

impl<B: LockBackend> Permit<B> {
    pub(super) fn new(
        guard: LockGuard<Freed<B>>,
        (slots, slot): (Arc<Slots>, u32),
        ttl: Ttl,
    ) -> Self {
        Self { tenancy: Tenancy { slots, slot, ttl }, guard }
    }

    /// Which of the slots this is, from 0: below the number of permits, unless that was made smaller
    /// meanwhile. Nobody else has the same one at the same time.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.tenancy.slot
    }

    /// The fence of this permit, above those of all earlier ones of the same slot. Fences of different slots
    /// have nothing to do with each other.
    #[must_use]
    pub fn fence(&self) -> B::Fence {
        self.guard.fence()
    }

    /// What the work needs to know of its permit, to pass on.
    #[must_use]
    pub fn held(&self) -> Held<B::Fence> {
        self.guard.held()
    }

    /// How long the permit may still be relied on: see [`Held::valid_for`].
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.guard.valid_for()
    }

    /// Whether the permit is over.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Resolves when the permit is over: see [`Held::lost`].
    ///
    /// # Cancel safety
    ///
    /// Safe: call it again at any time.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<B> {
        self.guard.lost()
    }

    /// A token that fires when the permit is over: see [`Held::lost_token`].
    #[must_use]
    pub fn lost_token(&self) -> CancellationToken {
        self.guard.lost_token()
    }

    /// Gives the permit back, and says whether it was held until now.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// Safe: a dropped release goes on in the background.
    pub async fn release(self) -> Result<ReleaseResult, LockError> {
        let Self { tenancy, guard } = self;
        drop(tenancy);
        guard.release().await
    }
}

impl<B: LockBackend> fmt::Debug for Permit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("slot", &self.slot()).field("guard", &self.guard).finish()
    }
}
