//! The view that the work has of its lock.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::validity::Validity;
use crate::contract::loss_reason::LossReason;
use crate::rt::Instant;
use crate::value::FenceToken;
use crate::value::{Fence, LockId};

/// The view that the work has of its lock: the fence, how long the lock is safe, and when it is lost.
///
/// `Held` is cheap to clone and to send to other tasks. It does not keep the lock: dropping it does
/// nothing.
#[derive(Clone)]
pub struct Held<F: FenceToken = Fence> {
    pub(crate) validity: Arc<Validity>,
    fence: F,
    lock_id: LockId,
}

impl<F: FenceToken> Held<F> {
    pub(crate) fn new(validity: Arc<Validity>, fence: F, lock_id: LockId) -> Self {
        Self { validity, fence, lock_id }
    }

    /// The fencing token of this acquisition: a [`Fence`] on a backend that fences. Send it along with
    /// every write.
    #[must_use]
    pub fn fence(&self) -> F {
        self.fence
    }

    /// For authors of recipes: the same view with the fence of another lock of the recipe.
    #[must_use]
    pub fn with_fence(mut self, fence: F) -> Self {
        self.fence = fence;
        self
    }

    /// The id of the lock.
    #[must_use]
    pub fn lock_id(&self) -> LockId {
        self.lock_id
    }

    /// How long the holder may still rely on the lock; zero after its end.
    ///
    /// The time counts on this process's monotonic clock, from *before* the acquire or the last successful
    /// extend was sent, so that it never outlasts the store's view. No wall clock is involved.
    ///
    /// Time that the machine spends asleep counts on Linux, Apple's systems and Windows: a laptop that
    /// wakes up finds its locks over at once, and [`lost`](Self::lost) resolves within five seconds. A
    /// virtual machine does not notice that it is paused from outside, for a snapshot or a migration: then
    /// only the fence keeps a late write out.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        match self.validity.until() {
            Ok(until) => until.saturating_duration_since(Instant::now()),
            Err(_) => Duration::ZERO,
        }
    }

    /// Whether the lock is over.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.validity.check().is_err()
    }

    /// Resolves with the reason when the holder may no longer rely on the lock.
    ///
    /// Without auto-extend, that is when the TTL has run out locally, at the latest. The future also
    /// resolves when the holder itself gives up the lock ([`LossReason::Released`]), so that no task waits
    /// for ever. The future borrows nothing and needs no runtime.
    ///
    /// # Cancel safety
    ///
    /// Safe: call it again at any time.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<F> {
        Arc::clone(&self.validity).lost()
    }

    /// A token that fires when [`lost`](Self::lost) resolves, for work that takes a token. The token fires
    /// outside a runtime as well, and after the runtime of the caller has ended.
    ///
    /// Cancelling it has no effect on the lock.
    #[must_use]
    pub fn lost_token(&self) -> CancellationToken {
        self.validity.lost_token()
    }
}

impl<F: FenceToken> fmt::Debug for Held<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("lock_id", &self.lock_id)
            .field("fence", &self.fence)
            .field("valid_for", &self.valid_for())
            .finish()
    }
}
