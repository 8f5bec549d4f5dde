//! What a backend says of an acquire that nobody wants.

use std::future::Future;
use std::time::Duration;

use crate::contract::{AcquireRequest, ReleaseRequest};
use crate::rt::{self, Instant};
use crate::{Key, LockBackend, LockError, LockId, Timestamp, Ttl};

/// How a backend ends an acquire that nobody wants and whose outcome is not known.
pub trait Settle: LockBackend {
    /// Releases the lock if it is there, and says whether it can still come.
    ///
    /// One try, bounded in time. It is called again and again, with pauses, until it answers
    /// [`Settled::Done`] or the lock is over anyway.
    ///
    /// # Errors
    ///
    /// The store's failures; they are no proof of anything.
    ///
    /// # Cancel safety
    ///
    /// If its runtime ends, it is dropped, and called again in another runtime.
    fn settle(
        &self,
        acquire: &Unsettled,
    ) -> impl Future<Output = Result<Settled, LockError>> + Send;
}

/// An acquire that nobody wants.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unsettled {
    /// What was to be locked.
    pub key: Key,
    /// The id that the lock would have.
    pub lock_id: LockId,
    /// How long the lock would live.
    pub ttl: Ttl,
    /// When the store refuses the last sending, by its own clock: the latest that was said to
    /// [`Caller::sends`](super::Caller::sends), and `None` if nothing was said, so that nothing was sent.
    pub deadline: Option<Timestamp>,
    /// Whether it was sent once at the most, as far as [`Caller::sends`](super::Caller::sends) was told: when its
    /// lock has been released, nothing of it can come any more.
    pub is_sent_once: bool,
    pub(super) given_up: Instant,
}

impl Unsettled {
    /// An acquire that was sent more than once, whose last sending the store refuses after `deadline`, and whose
    /// answer was waited for `bound` at the most.
    #[must_use]
    pub fn new(request: &AcquireRequest, deadline: Timestamp, bound: Duration) -> Self {
        Self {
            key: request.key.clone(),
            lock_id: request.lock_id,
            ttl: request.ttl,
            deadline: Some(deadline),
            is_sent_once: false,
            given_up: rt::after(bound),
        }
    }

    /// The request that releases the lock.
    #[must_use]
    pub fn release(&self) -> ReleaseRequest {
        ReleaseRequest::new(self.lock_id).with_key_hint(self.key.clone())
    }
}

/// Whether anything of an acquire is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// There is no lock, and there will be none.
    Done,
    /// It may still come, for this long. It is asked again in between, and then.
    NotYet(Duration),
}
