//! Guards of held locks.

mod auto_extend;
mod detached_release;
#[cfg(not(test))]
mod expiry;
mod held;
mod lease;
mod min_hold;
mod parting;
mod release;
mod renewer_channel;
mod validity;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::oneshot;

use self::auto_extend::Renewer;
use self::detached_release::release;
pub use self::held::Held;
pub(crate) use self::lease::Lease;
use self::lease::as_not_held;
pub(crate) use self::min_hold::MinHold;
pub use self::parting::Parting;
pub(crate) use self::release::Releasable;
use self::release::ReleaseOutcome;
use self::renewer_channel::{Command, RenewerChannel};
use self::validity::Validity;
use crate::backend::LockBackend;
use crate::client::ReleaseSource;
use crate::contract::loss_reason::LossReason;
use crate::contract::response::{Acquired, ExtendResult, ReleaseResult};
use crate::locking::config::Policy;
use crate::locking::observed::ObservedHold;
use crate::rt::Instant;
use crate::value::{IntoTtl, LockError, Timestamp};

/// A held lock. Dropping the guard releases the lock in the background.
///
/// The fence, and how long the lock is safe, are those of [`Held`], to which the guard dereferences. A clone of the guard
/// is therefore such a view, which does not keep the lock.
///
/// [`acquire`](crate::acquire()), [`try_acquire`](crate::try_acquire()) and [`Locker`](crate::Locker)
/// return guards. [`release`](Self::release) reports the outcome. `Drop` never blocks and never panics,
/// and sends errors to the [`ReleaseErrorHandler`](crate::shared::ReleaseErrorHandler). No release is
/// sent after the store has answered one.
///
/// A guard may be dropped or released in another runtime than its own, or outside a runtime. The release
/// of a dropped guard needs a live runtime: the current one, or the one in which the guard was made.
/// Without either, the lock is left to its TTL, and the log says so. After `std::mem::forget`, an
/// auto-extended guard keeps the lock until the process ends or the cap on its hold is reached.
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard<B: LockBackend> {
    held: Held<B::Fence>,
    /// `None` after the release.
    owner: Option<LeaseOwner<B>>,
}

/// The owner of the lease.
enum LeaseOwner<B: LockBackend> {
    Guard(Lease<B>),
    Renewer(Arc<RenewerChannel<B>>),
}

impl<B: LockBackend> LockGuard<B> {
    /// A guard of a lock whose acquire was sent at `sent`.
    pub(crate) fn new(
        lease: Lease<B>,
        acquired: Acquired<B::Fence>,
        sent: Instant,
        policy: &Policy,
    ) -> Self {
        let auto_extend = policy.auto_extend.as_ref();
        let until = sent + lease.ttl.as_duration();
        let cap = auto_extend.and_then(|plan| plan.max_hold).map(|max_hold| sent + max_hold);
        let observed = ObservedHold::start(
            &lease.lock.client_state,
            &lease.lock.key,
            acquired.lock_id,
            policy,
        );
        let validity = Arc::new(Validity::new(until, acquired.expires_at, cap, observed));
        let held = Held::new(Arc::clone(&validity), acquired.fence, acquired.lock_id);
        let owner = match auto_extend {
            None => LeaseOwner::Guard(lease),
            Some(_) => {
                validity.watched_by_renewer();
                let channel =
                    Arc::new(RenewerChannel::new(lease.lock.client_state.clean_up().clone()));
                let spawner = lease.spawner.clone();
                let renewer = Renewer::new(Box::new(lease), validity, Arc::clone(&channel), sent);
                spawner.spawn(Box::new(renewer).run());
                LeaseOwner::Renewer(channel)
            }
        };
        Self { held, owner: Some(owner) }
    }

    /// When the lock expires by the store's time authority, as the store reported last. For display; to
    /// decide whether to go on, use [`valid_for`](Held::valid_for).
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.held.validity.expires_at()
    }

    /// A view of the lock, to pass on to the work.
    #[must_use]
    pub fn held(&self) -> Held<B::Fence> {
        self.held.clone()
    }

    /// Extends the lock to `ttl` from now on; takes a [`Ttl`](crate::Ttl) or a [`Duration`](std::time::Duration).
    ///
    /// The TTL replaces the time that is left, even if that shortens it. On an auto-extended guard, later
    /// renewals use this TTL as well. A lost lock stays lost: nothing is sent, and the answer is
    /// [`ExtendResult::NotHeld`].
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad TTL, and the store's failures. After an error, the holder may rely only
    /// on the shorter of the old and the new TTL, and [`valid_for`](Held::valid_for) counts that one. An error
    /// that [says that the record is lost](LockError::is_record_lost) ends the lock.
    ///
    /// # Cancel safety
    ///
    /// An extend that was sent takes effect in the store even if the future is dropped;
    /// [`valid_for`](Held::valid_for) then counts as after an error.
    pub async fn extend(&mut self, ttl: impl IntoTtl) -> Result<ExtendResult, LockError> {
        let ttl = ttl.into_ttl()?;
        let validity = &self.held.validity;
        match &mut self.owner {
            Some(LeaseOwner::Guard(lease)) => {
                if let Err(reason) = validity.check() {
                    return Ok(ExtendResult::NotHeld(as_not_held(reason)));
                }
                let result = lease.extend(ttl, false, validity).await;
                validity.extend_ended(&result, false);
                result
            }
            Some(LeaseOwner::Renewer(channel)) => {
                let (answer, result) = oneshot::channel();
                channel.send(Command::Extend(ttl, answer));
                result.await.unwrap_or_else(|_| Err(renewer_gone()))
            }
            None => Err(renewer_gone()),
        }
    }

    /// Releases the lock and returns whether it was held until now.
    ///
    /// A lock stays until the end of its [minimum hold](crate::LockConfig::with_min_hold), and the answer is
    /// then [`ReleaseResult::Kept`].
    ///
    /// The caller may ignore the answer: if the lock was gone before its TTL was over, the log has a
    /// warning. The fence, and not this answer, protects writes.
    ///
    /// # Errors
    ///
    /// The store's failures, and `NetworkTimeout` after the dispose timeout. The lock then ends with its
    /// TTL at the latest.
    ///
    /// # Cancel safety
    ///
    /// Safe: a dropped release continues in the background, and its error goes to the handler.
    pub async fn release(self) -> Result<ReleaseResult, LockError> {
        self.part(Parting::Free).await
    }

    pub(crate) async fn part(mut self, parting: Parting) -> Result<ReleaseResult, LockError> {
        let was_valid = self.held.validity.check().is_ok();
        self.held.validity.end(LossReason::Released);
        let result = self.give_back(parting, ReleaseSource::Drop).await?.result;
        let is_news = was_valid && !self.held.validity.logs_loss();
        if is_news && matches!(result, Ok(ReleaseResult::NotHeld(_))) {
            tracing::warn!(
                "a lock was not held any more when it was released, although its TTL was not over"
            );
        }
        result
    }

    /// # Errors
    ///
    /// `Internal` if the renewer has ended and the lock is given back without this guard.
    async fn give_back(
        &mut self,
        parting: Parting,
        source: ReleaseSource,
    ) -> Result<ReleaseOutcome, LockError> {
        let expires_at = self.expires_at();
        let release = |mut lease: Lease<B>| {
            lease.part(parting, expires_at);
            release(lease, source)
        };
        match self.owner.take() {
            Some(LeaseOwner::Guard(lease)) => Ok(release(lease).await),
            Some(LeaseOwner::Renewer(channel)) => {
                let (answer, outcome) = oneshot::channel();
                channel.send(Command::Release(parting, source, answer, channel.unfinished()));
                match (outcome.await, channel.take_lease()) {
                    (Ok(outcome), _) => Ok(outcome),
                    // The renewer has ended and left the lease.
                    (Err(_), Some(lease)) => Ok(release(*lease).await),
                    (Err(_), None) => Err(renewer_gone()),
                }
            }
            None => Err(renewer_gone()),
        }
    }

    /// Releases the lock after its work, whose result matters more than an error here: for [`lock`](crate::lock()), and for
    /// a guard that blocks.
    #[doc(hidden)]
    pub async fn finish(mut self) {
        if let Err(reason) = self.held.validity.check()
            && !self.held.validity.logs_loss()
        {
            tracing::warn!(?reason, "a lock was lost before its work had ended");
        }
        self.held.validity.end(LossReason::Released);
        drop(self.give_back(Parting::Free, ReleaseSource::Lock).await);
    }
}

impl<B: LockBackend> Deref for LockGuard<B> {
    type Target = Held<B::Fence>;

    fn deref(&self) -> &Self::Target {
        &self.held
    }
}

impl<B: LockBackend> Drop for LockGuard<B> {
    fn drop(&mut self) {
        self.held.validity.end(LossReason::Released);
        // A dropped lease is released. The renewer drops a lease that it owns.
        if let Some(LeaseOwner::Renewer(channel)) = self.owner.take() {
            // If the renewer has ended, the lease is dropped with the channel.
            let _unfinished = channel.unfinished();
            channel.send(Command::Abandon(channel.unfinished()));
            drop(channel);
        }
    }
}

impl<B: LockBackend> fmt::Debug for LockGuard<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("held", &self.held)
            .field("auto_extend", &matches!(self.owner, Some(LeaseOwner::Renewer(_))))
            .finish()
    }
}

fn renewer_gone() -> LockError {
    LockError::internal(
        "the task that renews this lock has ended, with its runtime or by a panic; the lock is not renewed any more",
    )
}
