//! Classifies the statuses of Firestore and of the transport.
//!
//! Texts of the server contain document names, and so keys and lock ids; texts of the credentials may
//! contain more. No such text leaves this file: the classification uses the code and the source errors.

use std::error::Error;
use std::fmt;
use std::io;

use gcloud_sdk::error::{Error as SdkError, ErrorKind as SdkErrorKind};
use gcloud_sdk::tonic::{Code, ConnectError, Status, TimeoutExpired};
use syncguard_core::{ErrorCode, LockError};

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

/// The failure of a step of an operation, and whether to retry.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: LockError,
    pub(crate) again: Again,
}

/// Says if the operation may start over with a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The step would fail again, or has used up its time.
    No,
    /// A document changed between our read and our commit; nothing was written.
    Conflict,
    /// The connection broke, or the call was cut off. A new connection may work at once.
    Disconnected,
}

/// Errors that this library makes itself are not retried.
impl From<LockError> for Fault {
    fn from(error: LockError) -> Self {
        Self { error, again: Again::No }
    }
}

/// The table of codes. Every code has a row.
fn by_code(code: Code) -> (ErrorCode, &'static str) {
    match code {
        Code::Unavailable => (ServiceUnavailable, "Firestore cannot be reached"),
        Code::Internal => (ServiceUnavailable, "Firestore reported an internal error"),
        Code::Aborted => (ServiceUnavailable, "Firestore gave up on a conflict"),
        Code::Cancelled => (ServiceUnavailable, "the call was cut off"),
        Code::Unknown => (ServiceUnavailable, "the connection to Firestore failed"),
        Code::DeadlineExceeded => (NetworkTimeout, TIMED_OUT),
        Code::PermissionDenied => (AuthFailed, "the credentials lack the permission for Firestore"),
        Code::Unauthenticated => (AuthFailed, "Firestore refused the credentials"),
        Code::ResourceExhausted => (RateLimited, "a quota of Firestore is used up"),
        Code::InvalidArgument => (InvalidArgument, "Firestore refused the request as invalid"),
        Code::FailedPrecondition => (
            InvalidArgument,
            "the database cannot serve locks: it is in Datastore mode, or the index on lockId is missing",
        ),
        Code::NotFound => (InvalidArgument, "there is no such Firestore project or database"),
        Code::Unimplemented => (InvalidArgument, "the endpoint is not Firestore"),
        Code::AlreadyExists | Code::OutOfRange | Code::DataLoss | Code::Ok => {
            (Internal, "Firestore answered with an unexpected status")
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
    let (code, message) = match cause {
        Cause::Timeout => (NetworkTimeout, TIMED_OUT),
        Cause::NoCredentials { transient: true } => {
            (ServiceUnavailable, "no access token could be fetched")
        }
        Cause::NoCredentials { transient: false } => {
            (AuthFailed, "the application default credentials give no access token")
        }
        Cause::NotConnected => (ServiceUnavailable, "Firestore cannot be reached"),
        Cause::Server | Cause::Transport => by_code(server),
    };
    let conflict = rpc == Rpc::Commit && cause == Cause::Server && is_conflict(server);
    let again = match (conflict, cause, server) {
        (true, ..) => Again::Conflict,
        (_, Cause::NotConnected, _)
        // A call that is cut off while its connection lives on gets only a status. This library has not
        // given it up: a call that it gives up gets no status.
        | (_, Cause::Server | Cause::Transport, Code::Unavailable | Code::Cancelled)
        | (_, Cause::Transport, Code::Unknown | Code::Internal) => Again::Disconnected,
        _ => Again::No,
    };
    let sent = !matches!(cause, Cause::NoCredentials { .. } | Cause::NotConnected);
    let error = if conflict { conflicts() } else { LockError::new(code, message) };
    let error = error.with_source(&Origin::of(status, rpc));
    // A reset by the transport has a code that the server did not choose.
    let is_open = cause == Cause::Transport || is_outcome_open(server);
    if sent && rpc == Rpc::Commit && is_open {
        Fault { error: error.with_unknown_outcome(), again }
    } else {
        Fault { error, again }
    }
}

/// The fault for a call without an answer within this library's own time limit.
pub(crate) fn timed_out(rpc: Rpc) -> Fault {
    let error = LockError::new(NetworkTimeout, TIMED_OUT);
    let error = if rpc == Rpc::Commit { error.with_unknown_outcome() } else { error };
    Fault { error, again: Again::No }
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
    /// The connection failed during the call.
    Transport,
}

impl Cause {
    fn of(status: &Status) -> Self {
        let mut source = status.source();
        if source.is_none() {
            // For a channel that is not ready, tonic gives only this text.
            return if status.code() == Code::Unknown
                && status.message().starts_with("Service was not ready")
            {
                Self::NotConnected
            } else {
                Self::Server
            };
        }
        while let Some(error) = source {
            if error.is::<TimeoutExpired>() || error.is::<gcloud_sdk::RequestTimeoutElapsed>() {
                return Self::Timeout;
            }
            if error.is::<ConnectError>() {
                return Self::NotConnected;
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
}

/// The parts of a status that may be shown: its code, the call, and the kind of an I/O error below it.
#[derive(Debug)]
struct Origin {
    code: Code,
    rpc: Rpc,
    io: Option<io::ErrorKind>,
}

impl Origin {
    fn of(status: &Status, rpc: Rpc) -> Self {
        let mut source = status.source();
        let mut io = None;
        while let Some(error) = source {
            io = error.downcast_ref::<io::Error>().map(io::Error::kind).or(io);
            source = error.source();
        }
        Self { code: status.code(), rpc, io }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gRPC {:?} ({:?}) of a {:?}", self.code, self.code as i32, self.rpc)?;
        match self.io {
            Some(kind) => write!(f, ": {kind}"),
            None => Ok(()),
        }
    }
}

impl Error for Origin {}

#[cfg(test)]
mod tests {
    use super::*;

    const RPCS: [Rpc; 3] = [Rpc::Read, Rpc::Query, Rpc::Commit];

    /// A row has: status, error code and retry of a read, error code and retry of a commit, and whether the
    /// outcome of the commit is unknown.
    #[test]
    fn every_code_is_what_the_table_says() {
        use Again::{Conflict, Disconnected, No};
        let rows = [
            (
                Code::Cancelled,
                ServiceUnavailable,
                Disconnected,
                ServiceUnavailable,
                Disconnected,
                true,
            ),
            (Code::Unknown, ServiceUnavailable, No, ServiceUnavailable, No, true),
            (Code::InvalidArgument, InvalidArgument, No, InvalidArgument, No, false),
            (Code::DeadlineExceeded, NetworkTimeout, No, NetworkTimeout, No, true),
            (Code::NotFound, InvalidArgument, No, ServiceUnavailable, Conflict, false),
            (Code::AlreadyExists, Internal, No, ServiceUnavailable, Conflict, false),
            (Code::PermissionDenied, AuthFailed, No, AuthFailed, No, false),
            (Code::ResourceExhausted, RateLimited, No, RateLimited, No, false),
            (Code::FailedPrecondition, InvalidArgument, No, ServiceUnavailable, Conflict, false),
            (Code::Aborted, ServiceUnavailable, No, ServiceUnavailable, Conflict, false),
            (Code::OutOfRange, Internal, No, Internal, No, false),
            (Code::Unimplemented, InvalidArgument, No, InvalidArgument, No, false),
            (Code::Internal, ServiceUnavailable, No, ServiceUnavailable, No, true),
            (
                Code::Unavailable,
                ServiceUnavailable,
                Disconnected,
                ServiceUnavailable,
                Disconnected,
                true,
            ),
            (Code::DataLoss, Internal, No, Internal, No, true),
            (Code::Unauthenticated, AuthFailed, No, AuthFailed, No, false),
        ];
        assert_eq!(rows.len(), 16, "all codes but Ok");
        for (code, read, read_again, commit, commit_again, unknown) in rows {
            let status = Status::new(code, "secret-key");
            for rpc in [Rpc::Read, Rpc::Query] {
                let fault = from_status(&status, rpc);
                assert_eq!((fault.error.code(), fault.again), (read, read_again), "{code:?}");
                assert!(!fault.error.is_outcome_unknown(), "{code:?}");
            }
            let fault = from_status(&status, Rpc::Commit);
            assert_eq!((fault.error.code(), fault.again), (commit, commit_again), "{code:?}");
            assert_eq!(fault.error.is_outcome_unknown(), unknown, "{code:?}");
        }
    }

    #[test]
    fn what_was_never_sent_is_not_unknown() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let status = Status::from_error(Box::new(ConnectError(Box::new(refused))));
        let fault = from_status(&status, Rpc::Commit);
        assert_eq!(fault.error.code(), ServiceUnavailable);
        assert_eq!(fault.again, Again::Disconnected);
        assert!(!fault.error.is_outcome_unknown());
        let source = fault.error.source().unwrap().to_string();
        assert!(source.contains("connection refused"), "{source}");
        let not_ready = Status::unknown("Service was not ready: secret-key");
        assert!(!from_status(&not_ready, Rpc::Commit).error.is_outcome_unknown());
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
        assert_eq!(fault.again, Again::Disconnected);
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
