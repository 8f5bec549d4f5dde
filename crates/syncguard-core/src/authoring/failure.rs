//! The rule, for all stores, of what a failed request says about its connection and its server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::value::{ErrorCode, LockError};

/// The subject of a failure. Each backend's table of errors says it beside the code of the error.
///
/// | subject | examples | the backend's next request |
/// |---|---|---|
/// | request | a record of a wrong type, no memory for a write, a missing permission | uses the same connection |
/// | connection | cut, refused, or silent for a whole request | uses another connection |
/// | server | a replica, loading its data, cut off from its cluster, out of connections | looks for another server: resolves the name again, asks the list, the Sentinels or the cluster |
///
/// A backend looks for another connection or server at most once a second, see [`LookLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureSubject {
    /// The server has answered and serves other requests. The connection stays.
    Request,
    /// The connection gives no answers any more.
    Connection,
    /// The server answers, and it is not, or is no longer, the server for this request.
    Server,
}

/// For authors of backends whose writes have preconditions: the failure of a step of an operation, and what it says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The error for the caller, unless another attempt helps.
    pub error: LockError,
    /// After a failure of the connection or the server another connection may help.
    pub subject: FailureSubject,
    /// The special reason of the failure, if there is one.
    pub finding: Option<Finding>,
}

/// A special reason of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Another client changed a record between read and write; nothing was written.
    Conflict,
    /// The tasks of the connection have ended with their runtime; nothing was sent.
    RuntimeEnded,
}

impl Fault {
    /// A fault without a special reason.
    #[must_use]
    pub fn new(error: LockError, subject: FailureSubject) -> Self {
        Self { error, subject, finding: None }
    }

    /// The fault after another client has changed a record.
    #[must_use]
    pub fn conflict() -> Self {
        const MESSAGE: &str = "other clients changed the lock between read and write in every try";
        let error = LockError::new(ErrorCode::ServiceUnavailable, MESSAGE);
        Self { finding: Some(Finding::Conflict), ..Self::from(error) }
    }

    /// The fault for a call without an answer in time.
    #[must_use]
    pub fn timed_out(is_write: bool) -> Self {
        let error = LockError::new(ErrorCode::NetworkTimeout, Self::TIMED_OUT);
        let error = if is_write { error.with_unknown_outcome() } else { error };
        Self::new(error, FailureSubject::Connection)
    }

    /// The message for a call without an answer in time.
    pub const TIMED_OUT: &str = "no answer within the request timeout";

    /// True if another client has changed a record.
    #[must_use]
    pub(crate) fn is_conflict(&self) -> bool {
        self.finding == Some(Finding::Conflict)
    }

    /// True if there was no answer in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.error.code() == ErrorCode::NetworkTimeout
    }
}

/// Errors that a backend makes itself are not retried.
impl From<LockError> for Fault {
    fn from(error: LockError) -> Self {
        Self::new(error, FailureSubject::Request)
    }
}

/// Says when a backend may look for another connection or server: at once, and at most once a second, however many requests fail.
#[derive(Debug, Default)]
pub struct LookLimit {
    last: Mutex<Option<Instant>>,
}

impl LookLimit {
    const PAUSE: Duration = Duration::from_secs(1);

    /// Returns true, and counts a look, if the last look was at least a second ago.
    #[must_use]
    pub fn permits(&self) -> bool {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let may = last.is_none_or(|last| now.duration_since(last) >= Self::PAUSE);
        if may {
            *last = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_lies_between_two_looks() {
        let limit = LookLimit::default();
        assert!(limit.permits() && !limit.permits());
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(!limit.permits());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(limit.permits() && !limit.permits());
    }
}
