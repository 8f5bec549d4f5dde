//! Whoever waits for an operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::check;
use crate::rt::{self, Instant, Mutex};
use crate::{LockError, Timestamp};

/// Whoever waits for an operation, as the operation sees it.
#[derive(Clone, Debug)]
pub struct Caller(Arc<CallerState>);

#[derive(Debug)]
struct CallerState {
    token: Option<CancellationToken>,
    gone: AtomicBool,
    sent: Mutex<Option<Sent>>,
}

/// Until when the store may carry out what was sent, by its clock and by ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) deadline: Timestamp,
    pub(super) given_up: Instant,
    /// How often it was sent.
    pub(super) times: u32,
}

impl Caller {
    /// A caller that waits until its token fires, and does not mind being gone: a release that nobody
    /// waits for is still owed to the next holder.
    #[must_use]
    pub fn new(token: Option<&CancellationToken>) -> Self {
        Self(Arc::new(CallerState {
            token: token.cloned(),
            gone: AtomicBool::new(false),
            sent: Mutex::new(None),
        }))
    }

    /// To be asked before each sending: an operation that nobody wants any more need not be sent.
    ///
    /// # Errors
    ///
    /// `Aborted` if the caller has dropped its future, or its token has fired. Where an earlier sending was
    /// not answered, the operation passes it on [with an unknown
    /// outcome](LockError::with_unknown_outcome): without that nothing is cleaned up.
    pub fn check(&self) -> Result<(), LockError> {
        if self.0.gone.load(Ordering::Acquire) {
            return Err(LockError::aborted());
        }
        check(self.0.token.as_ref())
    }

    /// To be said before each sending of an acquire: the store carries it out until `deadline` by its
    /// own clock, and the backend waits for the answer for `bound`.
    pub fn sends(&self, deadline: Timestamp, bound: Duration) {
        let given_up = rt::after(bound);
        let mut sent = self.0.sent.lock();
        let latest = sent.map_or(deadline, |before| before.deadline.max(deadline));
        let times = sent.map_or(0, |before| before.times) + 1;
        *sent = Some(Sent { deadline: latest, given_up, times });
    }

    pub(super) fn leaves(&self) {
        self.0.gone.store(true, Ordering::Release);
    }

    pub(super) fn sent(&self) -> Option<Sent> {
        *self.0.sent.lock()
    }
}
