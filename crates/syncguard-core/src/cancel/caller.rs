//! The caller of an operation, which may go before the operation ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::finish::OnAbandon;
use super::token::check;
use crate::rt::{self, Instant, Mutex};
use crate::value::{LockError, Timestamp};

/// The caller of an operation, as the operation sees it. `V` is [`Settle::VoidAfter`](super::Settle::VoidAfter).
#[derive(Debug)]
pub struct Caller<V = Timestamp>(Arc<CallerState<V>>);

impl<V> Clone for Caller<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct CallerState<V> {
    token: Option<CancellationToken>,
    gone: AtomicBool,
    sent: Mutex<Option<Sent<V>>>,
}

/// Until when the store may carry out a request that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent<V> {
    pub(super) void_after: V,
    /// When the backend stops waiting for the answer, by the local clock.
    pub(super) given_up: Instant,
    /// How often the request was sent.
    pub(super) times: u32,
}

impl<V: Copy + Ord> Caller<V> {
    /// A caller that gives up only if its token fires. It suits a release, which must still reach the store
    /// after its caller has gone.
    #[must_use]
    pub fn new(token: Option<&CancellationToken>) -> Self {
        Self(Arc::new(CallerState {
            token: token.cloned(),
            gone: AtomicBool::new(false),
            sent: Mutex::new(None),
        }))
    }

    /// Checks that the caller still wants the operation. Call this before each send.
    ///
    /// # Errors
    ///
    /// `Aborted` if the caller has dropped its future, or its token has fired. If an earlier send was not
    /// answered, the operation must return this error [with an unknown
    /// outcome](LockError::with_unknown_outcome): else no clean-up follows.
    pub fn check(&self) -> Result<(), LockError> {
        if self.0.gone.load(Ordering::Acquire) {
            return Err(LockError::aborted());
        }
        check(self.0.token.as_ref())
    }

    /// Records that an acquire is about to be sent. Call this before each send. The store refuses the request
    /// after `void_after`, and the backend waits for the answer for `bound`.
    pub fn sends(&self, void_after: V, bound: Duration) {
        let given_up = rt::after(bound);
        let mut sent = self.0.sent.lock();
        let latest = sent.map_or(void_after, |before| before.void_after.max(void_after));
        let times = sent.map_or(0, |before| before.times) + 1;
        *sent = Some(Sent { void_after: latest, given_up, times });
    }

    /// The latest of all [`sends`](Self::sends). `None` if the acquire was not sent.
    #[must_use]
    pub fn void_after(&self) -> Option<V> {
        self.sent().map(|sent| sent.void_after)
    }

    pub(super) fn set_gone(&self) {
        self.0.gone.store(true, Ordering::Release);
    }

    pub(super) fn sent(&self) -> Option<Sent<V>> {
        *self.0.sent.lock()
    }
}

/// Tells the operation that its caller has gone.
pub(super) struct TellGone(pub(super) Caller);

impl<T> OnAbandon<T> for TellGone {
    fn abandoned(&mut self) {
        self.0.set_gone();
    }

    fn ended(self, _: Option<T>) {}
}
