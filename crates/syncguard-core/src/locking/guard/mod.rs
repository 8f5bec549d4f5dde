//! Holding a lock.

mod auto_extend;
#[cfg(not(test))]
mod expiry;
mod held;
mod keep;
mod lease;
mod link;
mod loss;
#[cfg(test)]
mod shuttle_tests;
mod validity;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use self::auto_extend::Renewer;
pub use self::held::Held;
pub(crate) use self::keep::Keep;
pub(crate) use self::lease::Lease;
use self::lease::{GivenBack, as_not_held};
use self::link::{Command, Link};
pub use self::loss::LossReason;

use self::validity::Validity;
use crate::authoring::cancel::{Finish, Heir, Nobody};
use crate::contract::{Acquired, ReleaseSource};
use crate::locking::observed::Holding;
use crate::rt::{self, Instant};
use crate::{
    AutoExtend, ExtendResult, IntoTtl, LockBackend, LockError, LockId, ReleaseResult, Timestamp,
};

/// A held lock. Dropping it releases the lock in the background.
///
/// [`acquire`](crate::acquire()), [`try_acquire`](crate::try_acquire()) and [`Locker`](crate::Locker) give guards out.
/// [`release`](Self::release) reports what became of the lock; `Drop` never blocks and never
/// panics, and sends errors to the [`ReleaseErrorHandler`](crate::contract::ReleaseErrorHandler). At most one release goes out.
///
/// A guard may be dropped or released in another runtime than the one it was made in, or outside of any.
/// A drop needs one that is alive: here, or where the guard was made. Without one the lock is left to
/// its TTL, and the log says so. `std::mem::forget` on an auto-extended guard keeps the lock until the process ends or
/// the cap on its hold is reached.
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard<B: LockBackend> {
    held: Held<B::Fence>,
    /// `None` once released.
    custody: Option<Custody<B>>,
}

/// Who owns the lease.
enum Custody<B: LockBackend> {
    Guard(Box<Lease<B>>),
    Renewer(Arc<Link<B>>),
}

impl<B: LockBackend> LockGuard<B> {
    /// A guard over a lock that was asked for at `sent`.
    pub(crate) fn new(
        lease: Box<Lease<B>>,
        acquired: Acquired<B::Fence>,
        sent: Instant,
        auto_extend: Option<&AutoExtend>,
        recipe: Option<&'static str>,
    ) -> Self {
        let until = sent + lease.ttl.as_duration();
        let cap = auto_extend.and_then(|plan| plan.max_hold).map(|max_hold| sent + max_hold);
        let holding =
            Holding::start(lease.disposal.observer(), &lease.key, acquired.lock_id, recipe);
        let validity = Arc::new(Validity::new(until, acquired.expires_at, cap, holding));
        let held = Held::new(Arc::clone(&validity), acquired.fence, acquired.lock_id);
        let custody = match auto_extend {
            None => Custody::Guard(lease),
            Some(_) => {
                validity.kept();
                let link = Arc::new(Link::new(lease.disposal.clean_up().clone()));
                let spawner = lease.spawner.clone();
                let renewer = Renewer::new(lease, validity, Arc::clone(&link), sent);
                spawner.spawn(Box::new(renewer).run());
                Custody::Renewer(link)
            }
        };
        Self { held, custody: Some(custody) }
    }

    /// The fencing token of this acquisition: a [`Fence`](crate::Fence) on a backend that fences.
    #[must_use]
    pub fn fence(&self) -> B::Fence {
        self.held.fence()
    }

    /// The id of the lock: what another process needs to release or extend it.
    #[must_use]
    pub fn lock_id(&self) -> LockId {
        self.held.lock_id()
    }

    /// When the lock expires by the store's time authority, as last heard. For display; to decide
    /// whether to go on, use [`valid_for`](Self::valid_for).
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.held.validity.expires_at()
    }

    /// How long the holder may still rely on the lock: see [`Held::valid_for`].
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.held.valid_for()
    }

    /// Whether the lock is over.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.is_lost()
    }

    /// Resolves when the lock is over: see [`Held::lost`].
    ///
    /// # Cancel safety
    ///
    /// Safe: call it again at any time.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<B> {
        self.held.lost()
    }

    /// A token that fires when the lock is over: see [`Held::lost_token`].
    #[must_use]
    pub fn lost_token(&self) -> CancellationToken {
        self.held.lost_token()
    }

    /// What the work needs to know of the lock, to pass on.
    #[must_use]
    pub fn held(&self) -> Held<B::Fence> {
        self.held.clone()
    }

    /// Lets the lock live for `ttl` from now on; takes a [`Ttl`](crate::Ttl) or a [`Duration`].
    ///
    /// The TTL replaces what was left, also where that shortens it. On an auto-extended guard it
    /// becomes the TTL of later renewals as well. A lock that is lost stays lost: nothing is sent,
    /// and the answer is [`ExtendResult::NotHeld`].
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad TTL, and the store's failures. After an error only the shorter of
    /// the old and the new TTL can be relied on, and [`valid_for`](Self::valid_for) says so.
    ///
    /// # Cancel safety
    ///
    /// An extend that was sent takes effect in the store although the future is dropped;
    /// [`valid_for`](Self::valid_for) then counts on as after an error.
    pub async fn extend(&mut self, ttl: impl IntoTtl) -> Result<ExtendResult, LockError> {
        let ttl = ttl.into_ttl()?;
        let validity = &self.held.validity;
        match &mut self.custody {
            Some(Custody::Guard(lease)) => {
                if let Err(reason) = validity.check() {
                    return Ok(ExtendResult::NotHeld(as_not_held(reason)));
                }
                lease.extend(ttl, validity).await
            }
            Some(Custody::Renewer(link)) => {
                let (answer, result) = oneshot::channel();
                link.send(Command::Extend(ttl, answer));
                result.await.unwrap_or_else(|_| Err(renewer_gone()))
            }
            None => Err(renewer_gone()),
        }
    }

    /// Releases the lock and says whether it was held until now.
    ///
    /// A lock whose [minimum hold](crate::LockConfig::with_min_hold) is not over stays until then, and the
    /// answer is [`ReleaseResult::Kept`].
    ///
    /// The answer can be left aside: a lock that was gone although nothing had shown it is a warning in the
    /// log. Whoever has written something under the lock asks the fence, not this.
    ///
    /// # Errors
    ///
    /// The store's failures, and `NetworkTimeout` after the dispose timeout. The lock then ends by
    /// its TTL at the latest.
    ///
    /// # Cancel safety
    ///
    /// Safe: a dropped release goes on in the background, and its error goes to the handler.
    pub async fn release(mut self) -> Result<ReleaseResult, LockError> {
        let was_valid = self.held.validity.check().is_ok();
        self.held.validity.end(LossReason::Released);
        let result = self.give_back().await;
        let is_news = was_valid && !self.held.validity.logs_loss();
        if is_news && matches!(result, Ok(ReleaseResult::NotHeld(_))) {
            tracing::warn!(
                "a lock was not held any more when it was released, although its TTL was not over"
            );
        }
        result
    }

    async fn give_back(&mut self) -> Result<ReleaseResult, LockError> {
        match self.custody.take() {
            Some(Custody::Guard(lease)) => release(lease).await,
            Some(Custody::Renewer(link)) => {
                let (answer, result) = oneshot::channel();
                link.send(Command::Release(answer, link.unfinished()));
                match (result.await, link.take_lease()) {
                    (Ok(result), _) => result,
                    (Err(_), Some(lease)) => release(lease).await,
                    (Err(_), None) => Err(renewer_gone()),
                }
            }
            None => Err(renewer_gone()),
        }
    }

    /// Releases the lock after the work of [`lock`](crate::lock()), whose result matters more than an error here.
    pub(crate) async fn finish(mut self) {
        if let Err(reason) = self.held.validity.check()
            && !self.held.validity.logs_loss()
        {
            tracing::warn!(?reason, "a lock was lost before its work had ended");
        }
        self.held.validity.end(LossReason::Released);
        match self.custody.take() {
            Some(Custody::Guard(lease)) => {
                let has_woken = dispose(lease).await;
                let_others_run(has_woken).await;
            }
            Some(Custody::Renewer(link)) => {
                let (done, disposed) = oneshot::channel();
                link.send(Command::Dispose(done, link.unfinished()));
                if disposed.await.is_err()
                    && let Some(lease) = link.take_lease()
                {
                    // The renewer is gone, and has left it to us.
                    dispose(lease).await;
                }
            }
            None => {}
        }
    }
}

impl<B: LockBackend> Drop for LockGuard<B> {
    fn drop(&mut self) {
        self.held.validity.end(LossReason::Released);
        // A lease that is dropped is released; one that the renewer has is dropped by it.
        if let Some(Custody::Renewer(link)) = self.custody.take() {
            // Where the renewer has gone, the lease is dropped with the link.
            let _unfinished = link.unfinished();
            link.send(Command::Abandon(link.unfinished()));
            drop(link);
        }
    }
}

/// Releases a lock, to the end whatever becomes of the caller.
async fn release<B: LockBackend>(lease: Box<Lease<B>>) -> Result<ReleaseResult, LockError> {
    let unfinished = lease.disposal.clean_up().unfinished();
    let to_the_end = async move {
        let _unfinished = unfinished;
        let given = lease.release(ReleaseSource::Drop).await;
        let_others_run(given.has_woken).await;
        given
    };
    let (given, Unheard) = Finish::new(to_the_end, Unheard).await;
    given.result
}

/// Releases a lock after the work of [`lock`](crate::lock()), to the end whatever becomes of the caller. Whether a
/// waiter was woken.
async fn dispose<B: LockBackend>(lease: Box<Lease<B>>) -> bool {
    let unfinished = lease.disposal.clean_up().unfinished();
    let to_the_end = async move {
        let _unfinished = unfinished;
        lease.dispose(ReleaseSource::Lock).await
    };
    let (has_woken, Nobody) = Finish::new(to_the_end, Nobody).await;
    has_woken
}

/// The next one was woken, mostly in this runtime, and shall not have to wait for whatever the caller does
/// until its next await: it is often next on the very thread.
async fn let_others_run(has_woken: bool) {
    if has_woken {
        rt::yield_now().await;
    }
}

/// Hears of a release that nobody waits for any more.
struct Unheard;

impl Heir<GivenBack> for Unheard {
    fn inherit(self, given: Option<GivenBack>) {
        if let Some(given) = given {
            given.report();
        }
    }
}

impl<B: LockBackend> fmt::Debug for LockGuard<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("held", &self.held)
            .field("auto_extend", &matches!(self.custody, Some(Custody::Renewer(_))))
            .finish()
    }
}

fn renewer_gone() -> LockError {
    LockError::internal(
        "the task that keeps this lock has ended, with its runtime or by a panic; the lock is not renewed any more",
    )
}
