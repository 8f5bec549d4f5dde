//! The one error type of the library.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use super::holder::Holder;
use super::key::Key;
use super::lock_id::LockId;

/// The kind of failure of a [`LockError`].
///
/// The names are those of the TypeScript library, so that dashboards of a mixed fleet agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The store cannot be reached, is shutting down, or gave up on a conflict.
    ServiceUnavailable,
    /// The store refused the credentials or the permission.
    AuthFailed,
    /// The caller passed an argument that can never work; the message says what is allowed.
    InvalidArgument,
    /// The store or the connection pool asks to slow down.
    RateLimited,
    /// The store did not answer within the configured time, or it answered after the TTL was over.
    NetworkTimeout,
    /// The store said that the lock was still held, maybe by this process itself, when the time limit or the retries
    /// ran out. If the store does not answer, the code is [`NetworkTimeout`](Self::NetworkTimeout).
    ///
    /// Raised by [`lock`](crate::lock()), [`acquire`](crate::acquire()) and [`Locker`](crate::Locker), never by a
    /// backend.
    AcquisitionTimeout,
    /// The lock was lost before its work had ended, and the work was cut off: a step of it may have been carried out.
    ///
    /// Raised by [`run`](crate::run()), never by a backend. The message is that of the
    /// [reason](crate::LossReason).
    LockLost,
    /// The caller's cancellation token fired.
    Aborted,
    /// A failure that should not happen: a corrupt record, an exhausted fence counter, an answer
    /// that makes no sense.
    Internal,
}

impl ErrorCode {
    /// The name of the code in messages and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::AuthFailed => "AuthFailed",
            Self::InvalidArgument => "InvalidArgument",
            Self::RateLimited => "RateLimited",
            Self::NetworkTimeout => "NetworkTimeout",
            Self::AcquisitionTimeout => "AcquisitionTimeout",
            Self::LockLost => "LockLost",
            Self::Aborted => "Aborted",
            Self::Internal => "Internal",
        }
    }

    /// True if the same call may succeed later without a change to the program or the store's setup.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::ServiceUnavailable
            | Self::RateLimited
            | Self::NetworkTimeout
            | Self::AcquisitionTimeout => true,
            Self::AuthFailed
            | Self::InvalidArgument
            | Self::LockLost
            | Self::Aborted
            | Self::Internal => false,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The failure of a lock operation. Contention is no failure.
///
/// A lock that someone else holds is an ordinary answer ([`AcquireResult::Busy`](crate::contract::AcquireResult::Busy)), and
/// so is a lock that is gone when it is released. This type is for failures that an operator should look at.
///
/// `Display` and `Debug` show the code, what happened, and the chain of causes. They never show a
/// key, a lock id or a credential; [`key`](Self::key) and [`lock_id`](Self::lock_id) give the redacting types. How a backend
/// makes errors is in [`authoring`](crate::authoring).
///
/// ```
/// use syncguard_core::{ErrorCode, Key};
///
/// let error = Key::new("").unwrap_err();
/// assert_eq!(error.code(), ErrorCode::InvalidArgument);
/// assert!(!error.is_retryable());
/// assert_eq!(error.to_string(), "key is empty; 1 to 512 bytes are allowed (InvalidArgument)");
/// ```
#[derive(Clone, thiserror::Error)]
#[error("{message} ({code})")]
pub struct LockError {
    code: ErrorCode,
    message: Cow<'static, str>,
    outcome_unknown: bool,
    record_lost: bool,
    subject: Option<Box<Subject>>,
    source: Option<Box<Cause>>,
}

/// The lock of the failed operation. Both types redact themselves.
#[derive(Clone, Default)]
struct Subject {
    key: Option<Key>,
    lock_id: Option<LockId>,
    holder: Option<Holder>,
}

/// Behind the label of a holder.
const OWN: &str = ", which is the name of this process itself";

impl LockError {
    /// An error with this code. The message must contain no key, no lock id and no credential.
    #[doc(hidden)]
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            outcome_unknown: false,
            record_lost: false,
            subject: None,
            source: None,
        }
    }

    /// [`ErrorCode::InvalidArgument`]. The message says what was wrong and what is allowed.
    #[doc(hidden)]
    #[must_use]
    pub fn invalid_argument(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message)
    }

    /// [`ErrorCode::Internal`].
    #[doc(hidden)]
    #[must_use]
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    /// [`ErrorCode::Aborted`], the answer of every operation whose cancellation token fires.
    #[doc(hidden)]
    #[must_use]
    pub fn aborted() -> Self {
        Self::new(ErrorCode::Aborted, "cancelled by the caller's token")
    }

    /// Adds the cause of this error.
    ///
    /// The chain of causes is kept as text (each one's `Display`), so that no driver type becomes
    /// part of the public interface and no driver's `Debug` can print a credential.
    #[doc(hidden)]
    #[must_use]
    pub fn with_source(mut self, source: &(dyn Error + 'static)) -> Self {
        self.source = Some(Box::new(Cause::capture(source)));
        self
    }

    /// Adds the key of the operation. It stays redacted.
    #[doc(hidden)]
    #[must_use]
    pub fn with_key(mut self, key: &Key) -> Self {
        self.subject.get_or_insert_default().key = Some(key.clone());
        self
    }

    /// Adds the lock id of the operation. It stays redacted.
    #[doc(hidden)]
    #[must_use]
    pub fn with_lock_id(mut self, lock_id: LockId) -> Self {
        self.subject.get_or_insert_default().lock_id = Some(lock_id);
        self
    }

    /// Adds the holder whose lock the caller did not get. The message has the label.
    #[doc(hidden)]
    #[must_use]
    pub fn with_holder(mut self, holder: Holder) -> Self {
        let label = holder.label();
        if !label.is_empty() {
            // The label of this process may be that of a process elsewhere, so nothing is said about where the holder is.
            let own = if label == Holder::this_process().label() { OWN } else { "" };
            self.message = format!("{}; its holder is {label}{own}", self.message).into();
        }
        self.subject.get_or_insert_default().holder = Some(holder);
        self
    }

    /// Marks that the store may have carried out the operation: the request was sent and no answer
    /// came.
    #[doc(hidden)]
    #[must_use]
    pub fn with_unknown_outcome(mut self) -> Self {
        self.outcome_unknown = true;
        self
    }

    /// For authors of backends: marks that this answer of the store leaves no record to rely on. The record is damaged, or
    /// its table, file or database is gone or is another one. A guard that gets this answer to an extend
    /// [ends at once](crate::LossReason::RecordLost), so a failure that may pass has no such mark.
    #[doc(hidden)]
    #[must_use]
    pub fn with_record_lost(mut self) -> Self {
        self.record_lost = true;
        self
    }

    /// The kind of failure.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The message, without the code.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// True if the same call may succeed later: see [`ErrorCode::is_retryable`].
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.code.is_retryable()
    }

    /// True if the store may have carried out the operation although it failed for the caller.
    ///
    /// An acquire with an unknown outcome leaves no lock behind: if the store has granted the lock, the
    /// backend releases it in the background. So never send its lock id again: a lock granted under
    /// that id would be released too. Make a new request, which has its own id. A
    /// release can be repeated. An extend can be repeated too; guards make sure that a late extend does
    /// not undo a later one.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.outcome_unknown
    }

    /// True if the store has answered that the record is damaged, or that its table, file or database is gone or is another
    /// one. Another caller may have the lock, or get it.
    #[must_use]
    pub fn is_record_lost(&self) -> bool {
        self.record_lost
    }

    /// The key of the operation, if it is known.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.subject.as_ref()?.key.as_ref()
    }

    /// The lock id of the operation, if it is known.
    #[must_use]
    pub fn lock_id(&self) -> Option<LockId> {
        self.subject.as_ref()?.lock_id
    }

    /// The holder whose lock the caller did not get, if the store has said it. For people: another holder may have the lock
    /// by now.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.subject.as_ref()?.holder.as_ref()
    }
}

/// For code that is generic over [`TryInto`]: conversions that cannot fail have this error.
impl From<Infallible> for LockError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LockError");
        debug.field("code", &self.code).field("message", &self.message);
        if self.outcome_unknown {
            debug.field("outcome_unknown", &true);
        }
        if self.record_lost {
            debug.field("record_lost", &true);
        }
        if let Some(key) = self.key() {
            debug.field("key", key);
        }
        if let Some(lock_id) = self.lock_id() {
            debug.field("lock_id", &lock_id);
        }
        if let Some(source) = &self.source {
            debug.field("source", source);
        }
        debug.finish()
    }
}

/// An error of a captured chain of causes.
#[derive(Clone, thiserror::Error)]
#[error("{text}")]
struct Cause {
    text: String,
    source: Option<Box<Cause>>,
}

impl Cause {
    fn capture(error: &(dyn Error + 'static)) -> Self {
        Self {
            text: error.to_string(),
            source: error.source().map(|source| Box::new(Self::capture(source))),
        }
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)?;
        match &self.source {
            Some(source) => write!(f, " <- {source:?}"),
            None => Ok(()),
        }
    }
}
