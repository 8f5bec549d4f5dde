//! A permit of a semaphore.

use std::fmt;
use std::ops::Deref;

use syncguard_core::{Held, LockBackend, LockError, LockGuard, ReleaseResult};

use super::release_hook::ReleaseHook;
use super::slots::Claim;

/// A permit of a [`Semaphore`](crate::Semaphore). Dropping it gives it back in the background.
///
/// The fence, and how long the permit is safe, are those of [`Held`], to which the permit dereferences. The fence is larger
/// than the fences of all earlier permits of the same slot. Fences of different slots cannot be compared.
#[must_use = "dropping the permit gives it back"]
pub struct Permit<B: LockBackend> {
    // Dropped first, so that the slot does not count as ours any more when the release begins.
    pub(super) claim: Claim,
    pub(super) guard: LockGuard<ReleaseHook<B>>,
}

impl<B: LockBackend> Permit<B> {
    /// The number of the slot, from 0. It is below the number of permits, unless that number was made smaller
    /// meanwhile. No other permit has the same slot at the same time.
    #[must_use]
    pub fn slot(&self) -> u32 {
        u32::try_from(self.claim.number).unwrap_or(u32::MAX)
    }

    /// The fence and the validity of the permit, to pass on to the work.
    #[must_use]
    pub fn held(&self) -> Held<B::Fence> {
        self.guard.held()
    }

    /// Gives the permit back, and returns whether it was held until now.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// Safe: a dropped release goes on in the background.
    pub async fn release(self) -> Result<ReleaseResult, LockError> {
        let Self { claim, guard } = self;
        drop(claim);
        guard.release().await
    }
}

impl<B: LockBackend> Deref for Permit<B> {
    type Target = Held<B::Fence>;

    fn deref(&self) -> &Self::Target {
        &self.guard
    }
}

impl<B: LockBackend> fmt::Debug for Permit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("slot", &self.slot()).field("guard", &self.guard).finish()
    }
}
