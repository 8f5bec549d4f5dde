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
use crate::value::{Fence, LockError, LockId};

/// The view that the work has of its lock: the fence, how long the lock is safe, and when it is lost.
///
/// A [`LockGuard`](crate::LockGuard) dereferences to it, and so do the permits, terms and ticks of recipes. `Held` is cheap to clone and to send to other tasks. It does not keep the lock: dropping it does
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

    /// The id of the lock. Another process needs it to release or extend the lock.
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

    /// Why an extend of the lock failed, if none has succeeded since; renewals count too. For people and logs: beside a loss
    /// as [`Expired`](LossReason::Expired), it says why the lock could not be extended in time.
    #[must_use]
    pub fn extend_error(&self) -> Option<LockError> {
        self.validity.failure()
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

    /// Runs work for as long as the lock is held: the work's output, or why the lock was lost before.
    ///
    /// The lock is looked at before each step of the work. So a loss is final: the work takes no step after it, even
    /// if it could have ended with that step, and is dropped. A request that a step has sent may still be carried out,
    /// so it carries the [fence](Self::fence). `Ok` means that the lock was held when the last step began.
    ///
    /// Work that blocks its thread, or that was spawned, goes on: let it look at [`is_lost`](Self::is_lost) or
    /// [`lost_token`](Self::lost_token).
    ///
    /// ```
    /// use syncguard_core::{AutoExtend, LockBackend, LockConfig, lock};
    /// # type Report = ();
    /// # async fn build_report(_: impl Sized) -> Result<Report, std::io::Error> { Ok(()) }
    ///
    /// async fn nightly<B: LockBackend>(backend: &B) -> Result<Report, Box<dyn std::error::Error>> {
    ///     let config = LockConfig::new("job:nightly").with_auto_extend(AutoExtend::new());
    ///     // One `?` each: the lock was not granted, it was lost, the work has failed.
    ///     lock(backend, config, async |held| held.or_lost(build_report(held.fence())).await).await???;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The reason of the loss; [`LossReason::Released`] if the holder itself has given the lock up.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work at its present await. The lock stays held.
    pub fn or_lost<W: Future>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<W::Output, LossReason>> + use<F, W> {
        let lost = self.lost();
        async move {
            tokio::select! {
                biased;
                reason = lost => Err(reason),
                output = work => Ok(output),
            }
        }
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
