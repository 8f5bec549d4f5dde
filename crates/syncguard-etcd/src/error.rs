//! Classifies the statuses of etcd and of the transport.
//!
//! The texts of etcd's own errors are fixed, and the same code stands for several of them, so the text decides where it
//! is known. No text leaves this file, because that of a proxy may contain anything.

use std::error::Error;
use std::io;

use syncguard_core::authoring::{CallSource, FailureSubject, is_unknown_name, sources};
use syncguard_core::{ErrorCode, LockError};
use tonic::{Code, ConnectError, Status, TimeoutExpired};

use ErrorCode::{
    AuthFailed, Internal, InvalidArgument, NetworkTimeout, RateLimited, ServiceUnavailable,
};
use FailureSubject::{Connection, Request, Server};
use Outcome::{Refused, Unknown};

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rpc {
    /// Changes nothing.
    Read,
    /// Changes records, under conditions.
    Write,
}

/// The effect of a failed write on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It was not carried out.
    Refused,
    /// It may have been carried out.
    Unknown,
}

/// The failure of a step of an operation, and what it says.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: LockError,
    /// After a failure of the connection or the server the operation may start over with a read, on another member.
    pub(crate) subject: FailureSubject,
    pub(crate) finding: Option<Finding>,
}

/// A special reason of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The tasks of the channel have ended with their runtime.
    RuntimeEnded,
    /// The token of the user is not known any more; nothing was carried out.
    TokenRefused,
    /// The cluster has no users, so none can log in.
    NoUsers,
    /// Another client changed the records between read and write; nothing was written.
    Conflict,
}

impl Fault {
    /// The fault after another client has changed the records.
    pub(crate) fn conflict() -> Self {
        let error = LockError::new(
            ServiceUnavailable,
            "other clients changed the lock between read and write in every try",
        );
        Self { finding: Some(Finding::Conflict), ..Self::from(error) }
    }

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
        Self { error, subject: Request, finding: None }
    }
}

/// The meaning of a status.
#[derive(Clone, Copy)]
struct Meaning(ErrorCode, Outcome, FailureSubject, &'static str);

/// etcd's own errors, by the beginning of their texts.
#[rustfmt::skip]
const ANSWERS: &[(&str, Meaning)] = &[
    ("etcdserver: no leader", Meaning(ServiceUnavailable, Refused, Server, "the member of etcd knows no leader")),
    // Two texts more begin so: "…, possibly due to previous leader failure" and "… to connection lost".
    ("etcdserver: request timed out", Meaning(NetworkTimeout, Unknown, Server, "etcd's members did not agree in time")),
    ("etcdserver: leader changed", Meaning(ServiceUnavailable, Unknown, Server, "etcd's leader has changed")),
    ("etcdserver: server stopped", Meaning(ServiceUnavailable, Unknown, Server, "the member of etcd stops")),
    ("etcdserver: too many requests", Meaning(RateLimited, Refused, Request, "etcd lags behind and takes no more requests")),
    // The write that crosses the quota is carried out.
    ("etcdserver: mvcc: database space exceeded", Meaning(ServiceUnavailable, Unknown, Request, "etcd's database has reached its quota and refuses writes")),
    ("etcdserver: rpc not supported for learner", Meaning(ServiceUnavailable, Refused, Server, "the member of etcd is a learner")),
    ("etcdserver: not capable", Meaning(ServiceUnavailable, Refused, Server, "the member of etcd is not ready yet")),
    ("etcdserver: unhealthy cluster", Meaning(ServiceUnavailable, Refused, Server, "etcd's cluster is not healthy")),
    ("etcdserver: corrupt", Meaning(ServiceUnavailable, Unknown, Request, "etcd has found its data corrupt")),
    ("etcdserver: permission denied", Meaning(AuthFailed, Refused, Request, "the user may not use the records of locks in etcd")),
    ("etcdserver: authentication failed", Meaning(AuthFailed, Refused, Request, "etcd refused the user name or the password")),
    (NO_USER, Meaning(AuthFailed, Refused, Request, "etcd wants a user name and a password")),
    (OLD_TOKEN, Meaning(AuthFailed, Refused, Request, TOKEN)),
    (OLD_REVISION, Meaning(AuthFailed, Refused, Request, TOKEN)),
    (NO_USERS, Meaning(AuthFailed, Refused, Request, "etcd's cluster has no users")),
    ("etcdserver: too many operations in txn request", Meaning(InvalidArgument, Refused, Request, "etcd allows too few operations in a transaction; locks need --max-txn-ops of 4 or more")),
];

/// The token has expired, or the member was started again since.
const OLD_TOKEN: &str = "etcdserver: invalid auth token";
/// Users were changed since the login.
const OLD_REVISION: &str = "etcdserver: revision of auth store is old";
/// Users were turned on since the login that was not needed, or there was no login.
const NO_USER: &str = "etcdserver: user name is empty";
const NO_USERS: &str = "etcdserver: authentication is not enabled";
const TOKEN: &str = "etcd does not know the user's token any more";

/// The table of codes, for texts that are not known.
#[rustfmt::skip]
fn by_code(code: Code) -> Meaning {
    match code {
        Code::Unavailable => Meaning(ServiceUnavailable, Unknown, Server, UNREACHABLE),
        Code::Internal | Code::Unknown | Code::Aborted => Meaning(ServiceUnavailable, Unknown, Request, "etcd reported an internal error"),
        Code::Cancelled => Meaning(ServiceUnavailable, Unknown, Connection, "the call was cut off"),
        Code::DeadlineExceeded => Meaning(NetworkTimeout, Unknown, Server, TIMED_OUT),
        Code::PermissionDenied | Code::Unauthenticated => Meaning(AuthFailed, Refused, Request, "etcd refused the user"),
        Code::ResourceExhausted => Meaning(RateLimited, Unknown, Request, "etcd has reached a limit"),
        Code::InvalidArgument => Meaning(InvalidArgument, Refused, Request, "etcd refused the request as invalid"),
        Code::FailedPrecondition => Meaning(ServiceUnavailable, Unknown, Server, "the member of etcd cannot serve this"),
        Code::Unimplemented => Meaning(InvalidArgument, Refused, Request, "the address is not that of an etcd server"),
        Code::NotFound | Code::AlreadyExists | Code::OutOfRange | Code::DataLoss | Code::Ok => Meaning(Internal, Unknown, Request, "etcd answered with an unexpected status"),
    }
}

const TIMED_OUT: &str = "no answer within the request timeout";
const UNREACHABLE: &str = "etcd cannot be reached";

/// Makes the fault for a status, which the server sent or tonic made.
pub(crate) fn from_status(status: &Status, rpc: Rpc) -> Fault {
    let cause = Cause::of(status);
    let known = ANSWERS.iter().find(|(text, _)| status.message().starts_with(text));
    let not_sent = |message| Meaning(ServiceUnavailable, Refused, Connection, message);
    let Meaning(code, outcome, subject, message) = match cause {
        Cause::Timeout => Meaning(NetworkTimeout, Unknown, Connection, TIMED_OUT),
        Cause::UnknownName => not_sent("the name of etcd's host cannot be resolved"),
        Cause::NotConnected | Cause::RuntimeEnded => not_sent(UNREACHABLE),
        Cause::Transport => {
            Meaning(ServiceUnavailable, Unknown, Connection, "the connection to etcd failed")
        }
        Cause::Server => known.map_or_else(|| by_code(status.code()), |(_, meaning)| *meaning),
    };
    let error = LockError::new(code, message).with_source(&source(status, rpc));
    let is_open = rpc == Rpc::Write && outcome == Unknown;
    let error = if is_open { error.with_unknown_outcome() } else { error };
    let finding = match (cause, known.map(|(text, _)| *text)) {
        (Cause::RuntimeEnded, _) => Some(Finding::RuntimeEnded),
        (Cause::Server, Some(OLD_TOKEN | OLD_REVISION | NO_USER)) => Some(Finding::TokenRefused),
        (Cause::Server, Some(NO_USERS)) => Some(Finding::NoUsers),
        _ => None,
    };
    Fault { error, subject, finding }
}

/// The fault for a call without an answer within this library's own time limit.
pub(crate) fn timed_out(rpc: Rpc) -> Fault {
    let error = LockError::new(NetworkTimeout, TIMED_OUT);
    let error = if rpc == Rpc::Write { error.with_unknown_outcome() } else { error };
    Fault { subject: Connection, ..Fault::from(error) }
}

/// The error for an answer that lacks a required part.
pub(crate) fn unintelligible(what: &'static str) -> LockError {
    LockError::internal(format!("etcd's answer makes no sense: {what}"))
}

/// The cause of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The server sent it.
    Server,
    /// A time limit of the client passed.
    Timeout,
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
        if status.source().is_none() {
            return if status.message() == NOT_READY { Self::RuntimeEnded } else { Self::Server };
        }
        let known = |error: &(dyn Error + 'static)| {
            let is_timeout = error.is::<TimeoutExpired>();
            let connecting = || error.is::<ConnectError>().then(|| Self::of_connecting(error));
            is_timeout.then_some(Self::Timeout).or_else(connecting)
        };
        sources(status).find_map(known).unwrap_or(Self::Transport)
    }

    fn of_connecting(error: &(dyn Error + 'static)) -> Self {
        let mut errors = sources(error).filter_map(|source| source.downcast_ref::<io::Error>());
        if errors.any(is_unknown_name) { Self::UnknownName } else { Self::NotConnected }
    }
}

/// The status for a channel that takes no calls. A channel that connects with its first call always takes calls, while its
/// tasks live.
pub(crate) fn not_ready() -> Status {
    Status::unknown(NOT_READY)
}

const NOT_READY: &str = "syncguard: the channel is not ready";

/// The part of a status that may be shown.
fn source(status: &Status, rpc: Rpc) -> CallSource {
    let code = status.code();
    CallSource::new(format!("gRPC {code:?} ({}) of a {rpc:?}", code as i32), status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_unknown(status: &Status) -> bool {
        assert!(!from_status(status, Rpc::Read).error.is_outcome_unknown(), "a read");
        from_status(status, Rpc::Write).error.is_outcome_unknown()
    }

    #[test]
    fn every_answer_of_etcd_is_what_the_table_says() {
        let rows = [
            ("no leader", ServiceUnavailable, Server, false),
            ("request timed out", NetworkTimeout, Server, true),
            (
                "request timed out, possibly due to previous leader failure",
                NetworkTimeout,
                Server,
                true,
            ),
            ("leader changed", ServiceUnavailable, Server, true),
            ("server stopped", ServiceUnavailable, Server, true),
            ("too many requests", RateLimited, Request, false),
            ("mvcc: database space exceeded", ServiceUnavailable, Request, true),
            ("rpc not supported for learner", ServiceUnavailable, Server, false),
            ("not capable", ServiceUnavailable, Server, false),
            ("unhealthy cluster", ServiceUnavailable, Server, false),
            ("corrupt cluster", ServiceUnavailable, Request, true),
            ("permission denied", AuthFailed, Request, false),
            ("authentication failed, invalid user ID or password", AuthFailed, Request, false),
            ("user name is empty", AuthFailed, Request, false),
            ("invalid auth token", AuthFailed, Request, false),
            ("revision of auth store is old", AuthFailed, Request, false),
            ("authentication is not enabled", AuthFailed, Request, false),
            ("too many operations in txn request", InvalidArgument, Request, false),
        ];
        for (text, code, subject, unknown) in rows {
            let status = Status::new(Code::Unavailable, format!("etcdserver: {text}"));
            let fault = from_status(&status, Rpc::Write);
            assert_eq!((fault.error.code(), fault.subject), (code, subject), "{text}");
            assert_eq!(is_unknown(&status), unknown, "{text}");
            let is_token = [OLD_TOKEN, OLD_REVISION, NO_USER].contains(&status.message());
            assert_eq!(fault.finding == Some(Finding::TokenRefused), is_token, "{text}");
        }
        for (text, _) in ANSWERS {
            let text = text.strip_prefix("etcdserver: ").unwrap();
            assert!(rows.iter().any(|(row, ..)| row.starts_with(text)), "{text}");
        }
    }

    #[test]
    fn every_code_is_what_the_table_says() {
        let rows = [
            (Code::Cancelled, ServiceUnavailable, Connection, true),
            (Code::Unknown, ServiceUnavailable, Request, true),
            (Code::InvalidArgument, InvalidArgument, Request, false),
            (Code::DeadlineExceeded, NetworkTimeout, Server, true),
            (Code::NotFound, Internal, Request, true),
            (Code::AlreadyExists, Internal, Request, true),
            (Code::PermissionDenied, AuthFailed, Request, false),
            (Code::ResourceExhausted, RateLimited, Request, true),
            (Code::FailedPrecondition, ServiceUnavailable, Server, true),
            (Code::Aborted, ServiceUnavailable, Request, true),
            (Code::OutOfRange, Internal, Request, true),
            (Code::Unimplemented, InvalidArgument, Request, false),
            (Code::Internal, ServiceUnavailable, Request, true),
            (Code::Unavailable, ServiceUnavailable, Server, true),
            (Code::DataLoss, Internal, Request, true),
            (Code::Unauthenticated, AuthFailed, Request, false),
        ];
        assert_eq!(rows.len(), 16, "all codes but Ok");
        for (code, expected, subject, unknown) in rows {
            let status = Status::new(code, "secret-key");
            let fault = from_status(&status, Rpc::Write);
            assert_eq!((fault.error.code(), fault.subject), (expected, subject), "{code:?}");
            assert_eq!(is_unknown(&status), unknown, "{code:?}");
            let error = fault.error;
            assert!(!format!("{error} {error:?}").contains("secret-key"), "{error:?}");
        }
    }

    #[test]
    fn what_was_never_sent_is_not_unknown() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let status = Status::from_error(Box::new(ConnectError(Box::new(refused))));
        let fault = from_status(&status, Rpc::Write);
        assert_eq!((fault.error.code(), fault.subject), (ServiceUnavailable, Connection));
        assert!(!fault.error.is_outcome_unknown());
        let source = fault.error.source().unwrap().to_string();
        assert!(source.contains("connection refused"), "{source}");
        let fault = from_status(&not_ready(), Rpc::Write);
        assert!(!fault.error.is_outcome_unknown());
        assert_eq!(fault.finding, Some(Finding::RuntimeEnded));
    }

    #[test]
    fn a_cut_or_a_silent_connection_leaves_the_outcome_open() {
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        for (error, code) in [
            (Box::new(reset) as Box<dyn Error + Send + Sync>, ServiceUnavailable),
            (Box::new(TimeoutExpired(())), NetworkTimeout),
        ] {
            let status = Status::from_error(error);
            let fault = from_status(&status, Rpc::Write);
            assert_eq!((fault.error.code(), fault.subject), (code, Connection));
            assert!(is_unknown(&status));
        }
        assert!(timed_out(Rpc::Write).error.is_outcome_unknown());
        assert!(!timed_out(Rpc::Read).error.is_outcome_unknown());
    }
}
