//! Classifies the statuses of etcd and of the transport.
//!
//! The texts of etcd's own errors are fixed, and the same code stands for several of them, so the text decides where it
//! is known. No text leaves this file, because that of a proxy may contain anything.

use std::error::Error;
use std::io;

use syncguard_core::authoring::{
    CallSource, FailureSubject, Fault, Finding, is_unknown_name, sources,
};
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
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It was not carried out.
    Refused,
    /// It may have been carried out.
    Unknown,
}

/// The meaning of a status.
#[derive(Clone, Copy)]
struct Meaning(ErrorCode, Outcome, FailureSubject, &'static str);

/// Errors of etcd's server and of the channel, by the beginnings of their texts. etcd puts `etcdserver: ` before the text or,
/// where it has forgotten to give the error a code, `auth: ` or nothing. Its proxy passes texts on and loses the codes.
#[rustfmt::skip]
const ANSWERS: &[(&str, Meaning)] = &[
    (NOT_READY, Meaning(ServiceUnavailable, Refused, Connection, UNREACHABLE)),
    ("no leader", Meaning(ServiceUnavailable, Refused, Server, "the member of etcd knows no leader")),
    ("not leader", Meaning(ServiceUnavailable, Refused, Server, "the member of etcd knows no leader")),
    // More texts begin so, with a reason.
    ("request timed out", Meaning(NetworkTimeout, Unknown, Server, "etcd's members did not agree in time")),
    ("leader changed", Meaning(ServiceUnavailable, Unknown, Server, "etcd's leader has changed")),
    // Raft drops a proposal during an election, and while the leadership moves.
    ("raft proposal dropped", Meaning(ServiceUnavailable, Refused, Server, "etcd has no leader that takes writes")),
    ("server stopped", Meaning(ServiceUnavailable, Unknown, Server, STOPS)),
    ("raft: stopped", Meaning(ServiceUnavailable, Unknown, Server, STOPS)),
    // Also "cancelled".
    ("request cancel", Meaning(ServiceUnavailable, Unknown, Connection, CUT_OFF)),
    ("too many requests", Meaning(RateLimited, Refused, Request, "etcd lags behind and takes no more requests")),
    // The write that crosses the quota is carried out.
    ("mvcc: database space exceeded", Meaning(ServiceUnavailable, Unknown, Request, FULL)),
    ("no space", Meaning(ServiceUnavailable, Unknown, Request, FULL)),
    ("rpc not supported for learner", Meaning(ServiceUnavailable, Refused, Server, "the member of etcd is a learner")),
    ("not capable", Meaning(ServiceUnavailable, Refused, Server, "the member of etcd is not ready yet")),
    ("unhealthy cluster", Meaning(ServiceUnavailable, Refused, Server, "etcd's cluster is not healthy")),
    ("corrupt", Meaning(ServiceUnavailable, Unknown, Request, "etcd has found its data corrupt")),
    ("permission denied", Meaning(AuthFailed, Refused, Request, "the user may not use the records of locks in etcd")),
    ("authentication failed", Meaning(AuthFailed, Refused, Request, "etcd refused the user name or the password")),
    ("user name not found", Meaning(AuthFailed, Refused, Request, "etcd refused the user name or the password")),
    (NO_USER, Meaning(AuthFailed, Refused, Request, "etcd wants a user name and a password")),
    // The token of a new login is over as well, if tokens end sooner than a call arrives.
    (OLD_TOKEN, Meaning(ServiceUnavailable, Refused, Server, "etcd does not know the token of a new login any more")),
    // After a new login users or roles were changed once more.
    (OLD_REVISION, Meaning(ServiceUnavailable, Refused, Server, CHANGING)),
    (OLD_HEADER, Meaning(ServiceUnavailable, Refused, Server, CHANGING)),
    (NO_USERS, Meaning(AuthFailed, Refused, Request, "etcd's cluster has no users")),
    ("too many operations in txn request", Meaning(InvalidArgument, Refused, Request, "etcd allows too few operations in a transaction; locks need --max-txn-ops of 4 or more")),
    ("request is too large", Meaning(InvalidArgument, Refused, Request, "--max-request-bytes of etcd is too small for the records of a lock")),
    // This client's limit for an answer, and that of a proxy.
    ("Error, decoded message length too large", Meaning(Internal, Unknown, Request, TOO_LARGE)),
    ("grpc: received message larger than max", Meaning(Internal, Unknown, Request, TOO_LARGE)),
];

/// The token has expired, or the member was started again since.
const OLD_TOKEN: &str = "invalid auth token";
/// Users were changed since the login.
const OLD_REVISION: &str = "revision of auth store is old";
/// The same, from etcd up to 3.5.1.
const OLD_HEADER: &str = "revision in header is old";
/// Users were turned on since the login that was not needed, or there was no login.
const NO_USER: &str = "user name is empty";
const NO_USERS: &str = "authentication is not enabled";
const STOPS: &str = "the member of etcd stops";
const CUT_OFF: &str = "the call was cut off";
const FULL: &str = "etcd's database has reached its quota and refuses writes";
const CHANGING: &str = "etcd's users or roles are changed all the time, which ends each login";
const TOO_LARGE: &str = "a record of locks in etcd is too large to be read";

/// The table of codes, for texts that are not known.
#[rustfmt::skip]
fn by_code(code: Code) -> Meaning {
    match code {
        Code::Unavailable => Meaning(ServiceUnavailable, Unknown, Server, UNREACHABLE),
        Code::Internal | Code::Unknown | Code::Aborted => Meaning(ServiceUnavailable, Unknown, Server, "etcd reported an internal error"),
        Code::Cancelled => Meaning(ServiceUnavailable, Unknown, Connection, CUT_OFF),
        Code::DeadlineExceeded => Meaning(NetworkTimeout, Unknown, Server, Fault::TIMED_OUT),
        Code::PermissionDenied | Code::Unauthenticated => Meaning(AuthFailed, Refused, Request, "etcd refused the user"),
        Code::ResourceExhausted => Meaning(RateLimited, Unknown, Request, "etcd has reached a limit"),
        Code::InvalidArgument => Meaning(InvalidArgument, Refused, Request, "etcd refused the request as invalid"),
        Code::FailedPrecondition => Meaning(ServiceUnavailable, Unknown, Server, "the member of etcd cannot serve this"),
        Code::Unimplemented => Meaning(InvalidArgument, Refused, Request, "the address is not that of an etcd server"),
        Code::NotFound | Code::AlreadyExists | Code::OutOfRange | Code::DataLoss | Code::Ok => Meaning(Internal, Unknown, Request, "etcd answered with an unexpected status"),
    }
}

const UNREACHABLE: &str = "etcd cannot be reached";

/// Makes the fault for a status, which the server sent or tonic made.
pub(crate) fn from_status(status: &Status, rpc: Rpc) -> Fault {
    let known = || ANSWERS.iter().find(|(text, _)| says(status, text));
    let Meaning(code, outcome, subject, message) = match status.source() {
        Some(_) => by_sources(status),
        None => known().map_or_else(|| by_code(status.code()), |(_, meaning)| *meaning),
    };
    let words = format!("gRPC {:?} ({}) of a {rpc:?}", status.code(), status.code() as i32);
    let error = LockError::new(code, message).with_source(&CallSource::new(words, status));
    let is_open = rpc == Rpc::Write && outcome == Unknown;
    let mut fault = Fault::new(if is_open { error.with_unknown_outcome() } else { error }, subject);
    fault.finding = (status.message() == NOT_READY).then_some(Finding::RuntimeEnded);
    fault
}

/// The meaning of a status that the transport made.
fn by_sources(status: &Status) -> Meaning {
    let not_connected = |error: &(dyn Error + 'static)| {
        let mut errors = sources(error).filter_map(|source| source.downcast_ref::<io::Error>());
        let is_unknown = errors.any(is_unknown_name);
        let unknown = "the name of etcd's host cannot be resolved";
        Meaning(
            ServiceUnavailable,
            Refused,
            Connection,
            if is_unknown { unknown } else { UNREACHABLE },
        )
    };
    let known = |error: &(dyn Error + 'static)| {
        if error.is::<TimeoutExpired>() {
            return Some(Meaning(NetworkTimeout, Unknown, Connection, Fault::TIMED_OUT));
        }
        error.is::<ConnectError>().then(|| not_connected(error))
    };
    let cut = Meaning(ServiceUnavailable, Unknown, Connection, "the connection to etcd failed");
    sources(status).find_map(known).unwrap_or(cut)
}

/// The member does not know the user's token any more, or there was none; nothing was carried out.
pub(crate) fn is_token_refused(status: &Status) -> bool {
    [OLD_TOKEN, OLD_REVISION, OLD_HEADER, NO_USER].iter().any(|text| says(status, text))
}

/// The cluster has no users, so none can log in.
pub(crate) fn has_no_users(status: &Status) -> bool {
    says(status, NO_USERS)
}

/// An answer was larger than this client takes.
pub(crate) fn is_too_large(fault: &Fault) -> bool {
    fault.error.message() == TOO_LARGE
}

/// The error of a member that has refused a watch.
pub(crate) fn watch_refused() -> LockError {
    LockError::new(AuthFailed, "etcd refused a watch")
}

/// True if the text of a status begins so, behind the part of etcd that it names.
fn says(status: &Status, text: &str) -> bool {
    let message = status.message();
    let rest = ["etcdserver: ", "auth: "].iter().find_map(|part| message.strip_prefix(part));
    rest.unwrap_or(message).starts_with(text)
}

/// The error for an answer that lacks a required part.
pub(crate) fn unintelligible(what: &'static str) -> LockError {
    LockError::internal(format!("etcd's answer makes no sense: {what}"))
}

/// The status for a channel that takes no calls. A channel that connects with its first call always takes calls, while its
/// tasks live.
pub(crate) fn not_ready() -> Status {
    Status::unknown(NOT_READY)
}

const NOT_READY: &str = "syncguard: the channel is not ready";

#[cfg(test)]
mod tests {
    use super::*;

    /// The meaning of a status for a write. No read leaves anything open, and no text of a server is passed on.
    fn meaning(status: &Status) -> (ErrorCode, FailureSubject, bool) {
        assert!(!from_status(status, Rpc::Read).error.is_outcome_unknown(), "a read");
        let Fault { error, subject, .. } = from_status(status, Rpc::Write);
        assert!(!format!("{error} {error:?}").contains("secret-key"), "{error:?}");
        (error.code(), subject, error.is_outcome_unknown())
    }

    #[test]
    fn every_answer_of_etcd_is_what_the_table_says() {
        let rows = [
            ("syncguard: the channel is not ready", ServiceUnavailable, Connection, false),
            ("no leader", ServiceUnavailable, Server, false),
            ("not leader", ServiceUnavailable, Server, false),
            ("request timed out", NetworkTimeout, Server, true),
            ("request timed out, possibly due to connection lost", NetworkTimeout, Server, true),
            ("request timed out, leader transfer took too long", NetworkTimeout, Server, true),
            ("leader changed", ServiceUnavailable, Server, true),
            ("raft proposal dropped", ServiceUnavailable, Server, false),
            ("server stopped", ServiceUnavailable, Server, true),
            ("raft: stopped", ServiceUnavailable, Server, true),
            ("request cancelled", ServiceUnavailable, Connection, true),
            ("request canceled", ServiceUnavailable, Connection, true),
            ("too many requests", RateLimited, Request, false),
            ("mvcc: database space exceeded", ServiceUnavailable, Request, true),
            ("no space", ServiceUnavailable, Request, true),
            ("rpc not supported for learner", ServiceUnavailable, Server, false),
            ("not capable", ServiceUnavailable, Server, false),
            ("unhealthy cluster", ServiceUnavailable, Server, false),
            ("corrupt cluster", ServiceUnavailable, Request, true),
            ("permission denied", AuthFailed, Request, false),
            ("authentication failed, invalid user ID or password", AuthFailed, Request, false),
            ("user name not found", AuthFailed, Request, false),
            ("user name is empty", AuthFailed, Request, false),
            ("invalid auth token", ServiceUnavailable, Server, false),
            ("revision of auth store is old", ServiceUnavailable, Server, false),
            ("revision in header is old", ServiceUnavailable, Server, false),
            ("authentication is not enabled", AuthFailed, Request, false),
            ("too many operations in txn request", InvalidArgument, Request, false),
            ("request is too large", InvalidArgument, Request, false),
            ("Error, decoded message length too large: found 5", Internal, Request, true),
            ("grpc: received message larger than max (5 vs. 4)", Internal, Request, true),
        ];
        for (text, code, subject, unknown) in rows {
            for part in ["etcdserver: ", "auth: ", ""] {
                let status = Status::new(Code::Unknown, format!("{part}{text}"));
                assert_eq!(meaning(&status), (code, subject, unknown), "{text}");
                let is_token = [OLD_TOKEN, OLD_REVISION, OLD_HEADER, NO_USER].contains(&text);
                assert_eq!(is_token_refused(&status), is_token, "{text}");
                let is_too_large = is_too_large(&from_status(&status, Rpc::Read));
                assert_eq!(
                    is_too_large,
                    text.contains("message le") || text.contains("message la"),
                    "{text}"
                );
            }
        }
        for (text, _) in ANSWERS {
            assert!(rows.iter().any(|(row, ..)| row.starts_with(text)), "{text}");
        }
    }

    #[test]
    fn every_code_is_what_the_table_says() {
        let rows = [
            (Code::Cancelled, ServiceUnavailable, Connection, true),
            (Code::Unknown, ServiceUnavailable, Server, true),
            (Code::InvalidArgument, InvalidArgument, Request, false),
            (Code::DeadlineExceeded, NetworkTimeout, Server, true),
            (Code::NotFound, Internal, Request, true),
            (Code::AlreadyExists, Internal, Request, true),
            (Code::PermissionDenied, AuthFailed, Request, false),
            (Code::ResourceExhausted, RateLimited, Request, true),
            (Code::FailedPrecondition, ServiceUnavailable, Server, true),
            (Code::Aborted, ServiceUnavailable, Server, true),
            (Code::OutOfRange, Internal, Request, true),
            (Code::Unimplemented, InvalidArgument, Request, false),
            (Code::Internal, ServiceUnavailable, Server, true),
            (Code::Unavailable, ServiceUnavailable, Server, true),
            (Code::DataLoss, Internal, Request, true),
            (Code::Unauthenticated, AuthFailed, Request, false),
        ];
        assert_eq!(rows.len(), 16, "all codes but Ok");
        for (code, expected, subject, unknown) in rows {
            let status = Status::new(code, "secret-key");
            assert_eq!(meaning(&status), (expected, subject, unknown), "{code:?}");
        }
    }

    #[test]
    fn what_the_transport_says_shows_whether_a_call_was_sent() {
        let io = |kind| Box::new(io::Error::from(kind));
        let refused = Box::new(ConnectError(io(io::ErrorKind::ConnectionRefused)));
        for (error, code, unknown) in [
            (refused as Box<dyn Error + Send + Sync>, ServiceUnavailable, false),
            (io(io::ErrorKind::ConnectionReset), ServiceUnavailable, true),
            (Box::new(TimeoutExpired(())), NetworkTimeout, true),
        ] {
            let status = Status::from_error(error);
            assert_eq!(meaning(&status), (code, Connection, unknown), "{status:?}");
            if !unknown {
                let source = from_status(&status, Rpc::Write).error.source().unwrap().to_string();
                assert!(source.contains("connection refused"), "{source}");
            }
        }
        assert_eq!(meaning(&not_ready()), (ServiceUnavailable, Connection, false));
        let finding = from_status(&not_ready(), Rpc::Write).finding;
        assert_eq!(finding, Some(Finding::RuntimeEnded));
    }
}
