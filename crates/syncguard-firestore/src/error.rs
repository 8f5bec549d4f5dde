//! Classifies the statuses of Firestore and of the transport.
//!
//! Texts of the server contain document names, and so keys and lock ids; texts of the credentials may
//! contain more. No such text leaves this file: the classification uses the code and the source errors.

use std::error::Error;
use std::io;

use gcloud_sdk::error::{Error as SdkError, ErrorKind as SdkErrorKind};
use gcloud_sdk::tonic::{Code, ConnectError, Status, TimeoutExpired};
use syncguard_core::authoring::{CallSource, FailureSubject, is_unknown_name, sources};
use syncguard_core::{ErrorCode, LockError};

use FailureSubject::{Connection, Request, Server};

use ErrorCode::{
    AuthFailed, Internal, InvalidArgument, NetworkTimeout, RateLimited, ServiceUnavailable,
};

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rpc {
    /// Documents by name.
    Read,
    /// Documents by lock id.
    Query,
    /// Writes with preconditions.
    Commit,
}

/// The failure of a step of an operation, and what it says.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: LockError,
    /// After a failure of the connection or the server the operation may start over with a read, at once, unless the
    /// call has used up its time.
    pub(crate) subject: FailureSubject,
    /// A document changed between our read and our commit; nothing was written. The operation may start over.
    pub(crate) is_conflict: bool,
    /// The tasks of the channel have ended with their runtime.
    pub(crate) runtime_ended: bool,
}

impl Fault {
    /// True if there was no answer in time.
    pub(crate) fn is_timeout(&self) -> bool {
        self.error.code() == NetworkTimeout
    }
}

impl From<Fault> for LockError {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

/// Errors that this library makes itself are not retried.
impl From<LockError> for Fault {
    fn from(error: LockError) -> Self {
        Self { error, subject: Request, is_conflict: false, runtime_ended: false }
    }
}

/// The table of codes that the server sends. Every code has a row.
fn by_code(code: Code) -> (ErrorCode, FailureSubject, &'static str) {
    match code {
        Code::Unavailable => (ServiceUnavailable, Server, "Firestore cannot be reached"),
        Code::Internal => (ServiceUnavailable, Request, "Firestore reported an internal error"),
        Code::Aborted => (ServiceUnavailable, Request, "Firestore gave up on a conflict"),
        // A call that is cut off while its connection lives on gets only a status. This library has not given it up: a
        // call that it gives up gets no status.
        Code::Cancelled => (ServiceUnavailable, Connection, "the call was cut off"),
        Code::Unknown => (ServiceUnavailable, Request, "the connection to Firestore failed"),
        Code::DeadlineExceeded => (NetworkTimeout, Request, TIMED_OUT),
        Code::PermissionDenied => {
            (AuthFailed, Request, "the credentials lack the permission for Firestore")
        }
        Code::Unauthenticated => (AuthFailed, Request, "Firestore refused the credentials"),
        Code::ResourceExhausted => (RateLimited, Request, "a quota of Firestore is used up"),
        Code::InvalidArgument => {
            (InvalidArgument, Request, "Firestore refused the request as invalid")
        }
        Code::FailedPrecondition => (
            InvalidArgument,
            Request,
            "the database cannot serve locks: it is in Datastore mode, or the index on lockId is missing",
        ),
        Code::NotFound => {
            (InvalidArgument, Request, "there is no such Firestore project or database")
        }
        Code::Unimplemented => (InvalidArgument, Request, "the endpoint is not Firestore"),
        Code::AlreadyExists | Code::OutOfRange | Code::DataLoss | Code::Ok => {
            (Internal, Request, "Firestore answered with an unexpected status")
        }
    }
}

const TIMED_OUT: &str = "no answer within the request timeout";

/// Returns whether a commit with this code failed because a precondition did not hold, or because another
/// writer won. Nothing was written.
fn is_conflict(code: Code) -> bool {
    matches!(code, Code::Aborted | Code::FailedPrecondition | Code::AlreadyExists | Code::NotFound)
}

/// Returns whether a commit with this code may still have been carried out.
fn is_outcome_open(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::Internal
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::DataLoss
    )
}

/// Makes the fault for a status, which the server sent or tonic made.
pub(crate) fn from_status(status: &Status, rpc: Rpc) -> Fault {
    let cause = Cause::of(status);
    let server = status.code();
    let (code, subject, message) = match cause {
        Cause::Timeout => (NetworkTimeout, Connection, TIMED_OUT),
        Cause::NoCredentials { transient: true } => {
            (ServiceUnavailable, Request, "no access token could be fetched")
        }
        Cause::NoCredentials { transient: false } => {
            (AuthFailed, Request, "the application default credentials give no access token")
        }
        Cause::UnknownName => {
            (ServiceUnavailable, Connection, "the name of Firestore's host cannot be resolved")
        }
        Cause::NotConnected | Cause::RuntimeEnded => {
            (ServiceUnavailable, Connection, "Firestore cannot be reached")
        }
        Cause::Server => by_code(server),
        Cause::Transport => {
            let (code, subject, message) = by_code(server);
            let is_lost = matches!(server, Code::Unavailable | Code::Unknown | Code::Internal);
            (code, if is_lost { Connection } else { subject }, message)
        }
    };
    let is_conflict = rpc == Rpc::Commit && cause == Cause::Server && is_conflict(server);
    let error = if is_conflict { conflicts() } else { LockError::new(code, message) };
    let error = error.with_source(&source(status, rpc));
    // A reset by the transport has a code that the server did not choose.
    let is_open = cause == Cause::Transport || is_outcome_open(server);
    let error = if cause.was_sent() && rpc == Rpc::Commit && is_open {
        error.with_unknown_outcome()
    } else {
        error
    };
    Fault { error, subject, is_conflict, runtime_ended: cause == Cause::RuntimeEnded }
}

/// The fault for a call without an answer within this library's own time limit.
pub(crate) fn timed_out(rpc: Rpc) -> Fault {
    let error = LockError::new(NetworkTimeout, TIMED_OUT);
    let error = if rpc == Rpc::Commit { error.with_unknown_outcome() } else { error };
    Fault { subject: Connection, ..Fault::from(error) }
}

/// The error for a client of the program whose tasks have ended.
pub(crate) fn runtime_of_the_client_ended() -> LockError {
    LockError::invalid_argument(
        "the runtime in which the program made its Firestore client has ended; make the client in a runtime that \
         lives as long as the backend, or use `connect`, which makes clients where they are needed",
    )
}

/// The error for an answer that lacks a required part.
pub(crate) fn unintelligible(what: &'static str) -> LockError {
    LockError::internal(format!("Firestore's answer makes no sense: {what}"))
}

/// The error after too many conflicts.
fn conflicts() -> LockError {
    LockError::new(
        ServiceUnavailable,
        "other clients changed the lock between read and write in every try",
    )
}

/// The error for credentials that cannot be used.
pub(crate) fn no_credentials(error: &SdkError) -> LockError {
    let (code, message) = match error.kind() {
        SdkErrorKind::Credentials(error) if error.is_transient() => {
            (ServiceUnavailable, "no access token could be fetched")
        }
        SdkErrorKind::Http(_) | SdkErrorKind::HttpStatus(_) => {
            (ServiceUnavailable, "no access token could be fetched")
        }
        _ => (AuthFailed, "no usable application default credentials were found"),
    };
    LockError::new(code, message)
}

/// The cause of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The server sent it.
    Server,
    /// A time limit of the client passed.
    Timeout,
    /// There was no token, so nothing was sent.
    NoCredentials { transient: bool },
    /// There was no connection, so nothing was sent.
    NotConnected,
    /// The host's name has no address, so nothing was sent.
    UnknownName,
    /// The tasks of the channel are gone, so nothing was sent.
    RuntimeEnded,
    /// The connection failed during the call.
    Transport,
}

impl Cause {
    fn of(status: &Status) -> Self {
        let mut source = status.source();
        if source.is_none() {
            // tonic gives only this text for a channel that is not ready. A channel that connects with its first call
            // is always ready, while its tasks live.
            return if status.code() == Code::Unknown
                && status.message().starts_with("Service was not ready")
            {
                Self::RuntimeEnded
            } else {
                Self::Server
            };
        }
        while let Some(error) = source {
            if error.is::<TimeoutExpired>() || error.is::<gcloud_sdk::RequestTimeoutElapsed>() {
                return Self::Timeout;
            }
            if error.is::<ConnectError>() {
                return Self::of_connecting(error);
            }
            // The middleware boxes the error twice.
            let sdk = error.downcast_ref::<SdkError>();
            let sdk = sdk.or_else(|| error.downcast_ref::<Box<SdkError>>().map(AsRef::as_ref));
            if let Some(sdk) = sdk {
                let transient = no_credentials(sdk).code() == ServiceUnavailable;
                return Self::NoCredentials { transient };
            }
            source = error.source();
        }
        Self::Transport
    }

    fn of_connecting(error: &(dyn Error + 'static)) -> Self {
        let mut errors = sources(error).filter_map(|source| source.downcast_ref::<io::Error>());
        if errors.any(is_unknown_name) { Self::UnknownName } else { Self::NotConnected }
    }

    /// True if the server may have got the call.
    fn was_sent(self) -> bool {
        matches!(self, Self::Server | Self::Timeout | Self::Transport)
    }
}

/// The part of a status that may be shown.
fn source(status: &Status, rpc: Rpc) -> CallSource {
    let code = status.code();
    CallSource::new(format!("gRPC {code:?} ({}) of a {rpc:?}", code as i32), status)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RPCS: [Rpc; 3] = [Rpc::Read, Rpc::Query, Rpc::Commit];

    /// A row has: status, error code of a read, subject, error code of a commit if it is another one, and whether the
    /// outcome of the commit is unknown. A commit with another error code has met a conflict.
    #[test]
    fn every_code_is_what_the_table_says() {
        let rows = [
            (Code::Cancelled, ServiceUnavailable, Connection, None, true),
            (Code::Unknown, ServiceUnavailable, Request, None, true),
            (Code::InvalidArgument, InvalidArgument, Request, None, false),
            (Code::DeadlineExceeded, NetworkTimeout, Request, None, true),
            (Code::NotFound, InvalidArgument, Request, Some(ServiceUnavailable), false),
            (Code::AlreadyExists, Internal, Request, Some(ServiceUnavailable), false),
            (Code::PermissionDenied, AuthFailed, Request, None, false),
            (Code::ResourceExhausted, RateLimited, Request, None, false),
            (Code::FailedPrecondition, InvalidArgument, Request, Some(ServiceUnavailable), false),
            (Code::Aborted, ServiceUnavailable, Request, Some(ServiceUnavailable), false),
            (Code::OutOfRange, Internal, Request, None, false),
            (Code::Unimplemented, InvalidArgument, Request, None, false),
            (Code::Internal, ServiceUnavailable, Request, None, true),
            (Code::Unavailable, ServiceUnavailable, Server, None, true),
            (Code::DataLoss, Internal, Request, None, true),
            (Code::Unauthenticated, AuthFailed, Request, None, false),
        ];
        assert_eq!(rows.len(), 16, "all codes but Ok");
        for (code, read, subject, conflict, unknown) in rows {
            let status = Status::new(code, "secret-key");
            for rpc in [Rpc::Read, Rpc::Query] {
                let fault = from_status(&status, rpc);
                assert_eq!((fault.error.code(), fault.subject), (read, subject), "{code:?}");
                assert!(!fault.error.is_outcome_unknown() && !fault.is_conflict, "{code:?}");
            }
            let fault = from_status(&status, Rpc::Commit);
            let expected = (conflict.unwrap_or(read), subject, conflict.is_some());
            assert_eq!(
                (fault.error.code(), fault.subject, fault.is_conflict),
                expected,
                "{code:?}"
            );
            assert_eq!(fault.error.is_outcome_unknown(), unknown, "{code:?}");
        }
    }

    #[test]
    fn what_was_never_sent_is_not_unknown() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let status = Status::from_error(Box::new(ConnectError(Box::new(refused))));
        let fault = from_status(&status, Rpc::Commit);
        assert_eq!(fault.error.code(), ServiceUnavailable);
        assert_eq!(fault.subject, Connection);
        assert!(!fault.error.is_outcome_unknown());
        let source = fault.error.source().unwrap().to_string();
        assert!(source.contains("connection refused"), "{source}");
        let not_ready = Status::unknown("Service was not ready: secret-key");
        let fault = from_status(&not_ready, Rpc::Commit);
        assert!(!fault.error.is_outcome_unknown() && fault.runtime_ended);
    }

    #[test]
    fn timeouts_of_every_layer_are_timeouts() {
        let tonic = Status::from_error(Box::new(TimeoutExpired(())));
        assert_eq!(tonic.code(), Code::Cancelled);
        let sdk = gcloud_sdk::RequestTimeoutElapsed::Total(std::time::Duration::from_secs(1));
        for status in [tonic, Status::from(sdk)] {
            let fault = from_status(&status, Rpc::Commit);
            assert_eq!(fault.error.code(), NetworkTimeout);
            assert!(fault.error.is_outcome_unknown());
        }
        assert!(timed_out(Rpc::Commit).error.is_outcome_unknown());
        assert!(!timed_out(Rpc::Read).error.is_outcome_unknown());
    }

    #[test]
    fn credentials_that_fail_are_told_from_those_that_may_work_later() {
        use gcloud_sdk::google_cloud_auth::errors::CredentialsError;
        for (transient, code) in [(true, ServiceUnavailable), (false, AuthFailed)] {
            let error = SdkError::from(CredentialsError::from_msg(transient, "secret-key"));
            let boxed: Box<dyn Error + Send + Sync> = Box::new(Box::new(error));
            let status = Status::from_error(boxed);
            assert_eq!(status.code(), Code::Unknown);
            let fault = from_status(&status, Rpc::Commit);
            assert_eq!(fault.error.code(), code);
            assert!(!fault.error.is_outcome_unknown());
            assert!(!format!("{} {:?}", fault.error, fault.error).contains("secret-key"));
        }
    }

    #[test]
    fn a_broken_connection_is_worth_a_new_one() {
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        let fault = from_status(&Status::from_error(Box::new(reset)), Rpc::Commit);
        assert_eq!(fault.subject, Connection);
        assert!(fault.error.is_outcome_unknown());
    }

    #[test]
    fn no_text_of_the_server_is_passed_on() {
        for code in 0..17 {
            for rpc in RPCS {
                let status = Status::new(Code::from_i32(code), "…/documents/locks/secret-key");
                let error = from_status(&status, rpc).error;
                assert!(!format!("{error} {error:?}").contains("secret-key"), "{error:?}");
            }
        }
    }
}
