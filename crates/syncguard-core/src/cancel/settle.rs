//! How a backend settles an acquire with an unknown outcome.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use crate::backend::LockBackend;
use crate::contract::request::{AcquireRequest, ReleaseRequest};
use crate::rt::{self, Instant};
use crate::value::{Key, LockError, LockId, Timestamp, Ttl};

/// How a backend cleans up an acquire whose outcome is unknown and whose lock is not wanted.
pub trait Settle: LockBackend {
    /// The reason why a request that arrives late is void: the [`Timestamp`] of a deadline, if the store refuses the request after
    /// it by its own clock; the [`Fence`](crate::Fence) of the key's counter that the request states, if the store refuses it
    /// once the counter is above.
    type VoidAfter: Copy + Ord + Debug + Send + Sync + 'static;

    /// Releases the lock if it exists, and returns whether it can still come.
    ///
    /// An implementation makes one try, bounded in time. The library calls it again, with pauses, until it
    /// answers [`Settled::Done`] or the lock must have expired.
    ///
    /// # Errors
    ///
    /// The store's failures, which prove nothing.
    ///
    /// # Cancel safety
    ///
    /// If the runtime ends, the future is dropped, and the library calls again in another runtime.
    fn settle(
        &self,
        acquire: &Unsettled<Self::VoidAfter>,
    ) -> impl Future<Output = Result<Settled, LockError>> + Send;
}

/// An acquire whose outcome is unknown and whose lock is not wanted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unsettled<V = Timestamp> {
    /// The key to lock.
    pub key: Key,
    /// The id that the lock would have.
    pub lock_id: LockId,
    /// How long the lock would live.
    pub ttl: Ttl,
    /// After this the store refuses every send of the acquire: the latest that
    /// [`Caller::sends`](super::Caller::sends) recorded. `None` if the acquire was not sent.
    pub void_after: Option<V>,
    /// Whether [`Caller::sends`](super::Caller::sends) recorded one send at the most. After the release of its
    /// lock, such an acquire cannot lock again.
    pub is_sent_once: bool,
    pub(super) given_up: Instant,
}

impl<V> Unsettled<V> {
    /// An acquire that was sent more than once. The store refuses the last send after `void_after`, and the
    /// backend waited for the answer for `bound` at the most.
    #[must_use]
    pub fn new(request: &AcquireRequest, void_after: V, bound: Duration) -> Self {
        Self {
            key: request.key.clone(),
            lock_id: request.lock_id,
            ttl: request.ttl,
            void_after: Some(void_after),
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

/// Whether a lock can still come of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// There is no lock, and there will be none.
    Done,
    /// The lock may still come for this long. The library asks again during this time and after it.
    NotYet(Duration),
}
