//! Classifies the statuses of Firestore and of the transport.
//!
//! Texts of the server contain document names, and so keys and lock ids; texts of the credentials may
//! contain more. No such text leaves this file: the classification uses the code and the source errors.

use std::error::Error;
use std::io;

use gcloud_sdk::RequestTimeoutElapsed;
use gcloud_sdk::error::{Error as SdkError, ErrorKind as SdkErrorKind};
use gcloud_sdk::tonic::{Code, ConnectError, Status, TimeoutExpired};
use syncguard_core::authoring::{
    CallSource, FailureSubject, Fault, Finding, is_unknown_name, sources,
};
use syncguard_core::{ErrorCode, LockError};

use ErrorCode::{
    AuthFailed, Internal, InvalidArgument, NetworkTimeout, RateLimited, ServiceUnavailable,
};
use FailureSubject::{Connection, Request, Server};
use Outcome::{Conflict, Refused, Unknown};

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

/// The effect of a failed commit on the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It was not carried out.
    Refused,
    /// A precondition did not hold, or another writer won; it was not carried out.
    Conflict,
    /// It may have been carried out.
    Unknown,
}

/// The meaning of a status. The code is that of a read, if a commit has met a conflict.
struct Meaning(ErrorCode, Outcome, FailureSubject, &'static str);

/// The table of codes that the server sends. Every code has a row.
#[rustfmt::skip]
fn by_code(code: Code) -> Meaning {
    match code {
        Code::Unavailable => Meaning(ServiceUnavailable, Unknown, Server, UNREACHABLE),
        Code::Internal => Meaning(ServiceUnavailable, Unknown, Server, "Firestore reported an internal error"),
        Code::Aborted => Meaning(ServiceUnavailable, Conflict, Request, "Firestore gave up on a conflict"),
        // A call that is cut off while its connection lives on gets only a status. This library has not given it up: a
        // call that it gives up gets no status.
        Code::Cancelled => Meaning(ServiceUnavailable, Unknown, Connection, "the call was cut off"),
        Code::Unknown => Meaning(ServiceUnavailable, Unknown, Server, "the connection to Firestore failed"),
        Code::DeadlineExceeded => Meaning(NetworkTimeout, Unknown, Request, Fault::TIMED_OUT),
        Code::PermissionDenied => Meaning(AuthFailed, Refused, Request, "the credentials lack the permission for Firestore"),
        Code::Unauthenticated => Meaning(AuthFailed, Refused, Request, "Firestore refused the credentials"),
        Code::ResourceExhausted => Meaning(RateLimited, Refused, Request, "a quota of Firestore is used up"),
        Code::InvalidArgument => Meaning(InvalidArgument, Refused, Request, "Firestore refused the request as invalid"),
        Code::FailedPrecondition => Meaning(InvalidArgument, Conflict, Request, "the database cannot serve locks: it is in Datastore mode, or the index on lockId is missing"),
        Code::NotFound => Meaning(InvalidArgument, Conflict, Request, "there is no such Firestore project or database"),
        Code::Unimplemented => Meaning(InvalidArgument, Refused, Request, "the endpoint is not Firestore"),
        Code::AlreadyExists => Meaning(Internal, Conflict, Request, UNEXPECTED),
        Code::DataLoss => Meaning(Internal, Unknown, Request, UNEXPECTED),
        Code::OutOfRange | Code::Ok => Meaning(Internal, Refused, Request, UNEXPECTED),
    }
}

const UNREACHABLE: &str = "Firestore cannot be reached";
const UNEXPECTED: &str = "Firestore answered with an unexpected status";
const NO_TOKEN: &str = "no access token could be fetched";

/// Makes the fault for a status, which the server sent or tonic made.
pub(crate) fn from_status(status: &Status, rpc: Rpc) -> Fault {
    // tonic gives only this text for a channel that is not ready. A channel that connects with its first call is always
    // ready, while its tasks live.
    let has_ended = status.source().is_none()
        && status.code() == Code::Unknown
        && status.message().starts_with("Service was not ready");
    let Meaning(code, outcome, subject, message) = match status.source() {
        Some(_) => by_sources(status),
        None if has_ended => Meaning(ServiceUnavailable, Refused, Connection, UNREACHABLE),
        None => by_code(status.code()),
    };
    let mut fault = match (rpc, outcome) {
        (Rpc::Commit, Conflict) => Fault::conflict(),
        _ => Fault::new(LockError::new(code, message), subject),
    };
    let words = format!("gRPC {:?} ({}) of a {rpc:?}", status.code(), status.code() as i32);
    fault.error = fault.error.with_source(&CallSource::new(words, status));
    if rpc == Rpc::Commit && outcome == Unknown {
        fault.error = fault.error.with_unknown_outcome();
    }
    if status.source().is_none() && status.code() == Code::NotFound && rpc != Rpc::Commit {
        fault.error = fault.error.with_record_lost();
    }
    if has_ended {
        fault.finding = Some(Finding::RuntimeEnded);
    }
    fault
}

/// The meaning of a status that the transport or the credentials made.
fn by_sources(status: &Status) -> Meaning {
    let not_connected = |error: &(dyn Error + 'static)| {
        let mut errors = sources(error).filter_map(|source| source.downcast_ref::<io::Error>());
        let is_unknown = errors.any(is_unknown_name);
        let unknown = "the name of Firestore's host cannot be resolved";
        let message = if is_unknown { unknown } else { UNREACHABLE };
        Meaning(ServiceUnavailable, Refused, Connection, message)
    };
    let known = |error: &(dyn Error + 'static)| {
        if error.is::<TimeoutExpired>() || error.is::<RequestTimeoutElapsed>() {
            return Some(Meaning(NetworkTimeout, Unknown, Connection, Fault::TIMED_OUT));
        }
        if error.is::<ConnectError>() {
            return Some(not_connected(error));
        }
        // The middleware boxes the error twice.
        let sdk = error.downcast_ref::<SdkError>();
        let sdk = sdk.or_else(|| error.downcast_ref::<Box<SdkError>>().map(AsRef::as_ref))?;
        let none = "the application default credentials give no access token";
        Some(match no_credentials(sdk).code() {
            ServiceUnavailable => Meaning(ServiceUnavailable, Refused, Request, NO_TOKEN),
            _ => Meaning(AuthFailed, Refused, Request, none),
        })
    };
    sources(status).find_map(known).unwrap_or_else(|| {
        // A reset by the transport has a code that the server did not choose.
        let Meaning(code, _, subject, message) = by_code(status.code());
        let is_lost = matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Internal);
        Meaning(code, Unknown, if is_lost { Connection } else { subject }, message)
    })
}

/// The error for a client of the program whose tasks have ended.
pub(crate) fn runtime_of_the_client_ended() -> LockError {
    LockError::invalid_argument(
        "the runtime in which the program made its Firestore client has ended; make the client in a runtime that \
         lives as long as the backend, or use `connect`, which makes clients where they are needed",
    )
}

/// The error for credentials that cannot be used.
pub(crate) fn no_credentials(error: &SdkError) -> LockError {
    let (code, message) = match error.kind() {
        SdkErrorKind::Credentials(error) if error.is_transient() => (ServiceUnavailable, NO_TOKEN),
        SdkErrorKind::Http(_) | SdkErrorKind::HttpStatus(_) => (ServiceUnavailable, NO_TOKEN),
        _ => (AuthFailed, "no usable application default credentials were found"),
    };
    LockError::new(code, message)
}

#[cfg(test)]
mod tests {
    use gcloud_sdk::google_cloud_auth::errors::CredentialsError;

    use super::*;

    /// A row has: status, error code of a read, subject, and the outcome of a commit.
    #[test]
    fn every_code_is_what_the_table_says() {
        let rows = [
            (Code::Cancelled, ServiceUnavailable, Connection, Unknown),
            (Code::Unknown, ServiceUnavailable, Server, Unknown),
            (Code::InvalidArgument, InvalidArgument, Request, Refused),
            (Code::DeadlineExceeded, NetworkTimeout, Request, Unknown),
            (Code::NotFound, InvalidArgument, Request, Conflict),
            (Code::AlreadyExists, Internal, Request, Conflict),
            (Code::PermissionDenied, AuthFailed, Request, Refused),
            (Code::ResourceExhausted, RateLimited, Request, Refused),
            (Code::FailedPrecondition, InvalidArgument, Request, Conflict),
            (Code::Aborted, ServiceUnavailable, Request, Conflict),
            (Code::OutOfRange, Internal, Request, Refused),
            (Code::Unimplemented, InvalidArgument, Request, Refused),
            (Code::Internal, ServiceUnavailable, Server, Unknown),
            (Code::Unavailable, ServiceUnavailable, Server, Unknown),
            (Code::DataLoss, Internal, Request, Unknown),
            (Code::Unauthenticated, AuthFailed, Request, Refused),
        ];
        assert_eq!(rows.len(), 16, "all codes but Ok");
        for (code, read, subject, outcome) in rows {
            let status = Status::new(code, "…/documents/locks/secret-key");
            for rpc in [Rpc::Read, Rpc::Query, Rpc::Commit] {
                let is_conflict = rpc == Rpc::Commit && outcome == Conflict;
                let is_unknown = rpc == Rpc::Commit && outcome == Unknown;
                let fault = from_status(&status, rpc);
                let expected = if is_conflict { ServiceUnavailable } else { read };
                assert_eq!((fault.error.code(), fault.subject), (expected, subject), "{code:?}");
                assert_eq!(fault.finding == Some(Finding::Conflict), is_conflict, "{code:?}");
                let is_lost = code == Code::NotFound && rpc != Rpc::Commit;
                assert_eq!(fault.error.is_record_lost(), is_lost, "{code:?}");
                assert_eq!(fault.error.is_outcome_unknown(), is_unknown, "{code:?}");
                let shown = format!("{} {:?}", fault.error, fault.error);
                assert!(!shown.contains("secret-key"), "{shown}");
            }
        }
    }

    #[test]
    fn what_the_transport_says_shows_whether_a_call_was_sent() {
        let io = |kind| Box::new(io::Error::from(kind));
        let credentials = |is_transient| {
            let error = CredentialsError::from_msg(is_transient, "secret-key");
            Box::new(Box::new(SdkError::from(error)))
        };
        let elapsed = RequestTimeoutElapsed::Total(std::time::Duration::from_secs(1));
        let refused = ConnectError(io(io::ErrorKind::ConnectionRefused));
        let reset = io(io::ErrorKind::ConnectionReset);
        for (status, code, subject, is_unknown) in [
            (Status::from_error(Box::new(refused)), ServiceUnavailable, Connection, false),
            (Status::unknown("Service was not ready: x"), ServiceUnavailable, Connection, false),
            (Status::from_error(credentials(true)), ServiceUnavailable, Request, false),
            (Status::from_error(credentials(false)), AuthFailed, Request, false),
            (Status::from_error(Box::new(TimeoutExpired(()))), NetworkTimeout, Connection, true),
            (Status::from(elapsed), NetworkTimeout, Connection, true),
            (Status::from_error(reset), ServiceUnavailable, Connection, true),
        ] {
            let Fault { error, subject: seen, finding, .. } = from_status(&status, Rpc::Commit);
            assert_eq!((error.code(), seen), (code, subject), "{status:?}");
            assert_eq!(error.is_outcome_unknown(), is_unknown, "{status:?}");
            assert!(!format!("{error} {error:?}").contains("secret-key"), "{error:?}");
            let is_not_ready = status.message().starts_with("Service");
            assert_eq!(finding == Some(Finding::RuntimeEnded), is_not_ready);
        }
    }
}
