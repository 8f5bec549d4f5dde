//! The meaning of each failure of a request.
//!
//! No text of a driver or a server leaves this file, because it may have names of objects, and parts of signed requests.

use object_store::Error;
use syncguard_core::authoring::{CallSource, FailureSubject, Fault};
use syncguard_core::{ErrorCode, LockError};

use ErrorCode::{AuthFailed, Internal, InvalidArgument, ServiceUnavailable};
use FailureSubject::{Connection, Request};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Get,
    Put,
    Delete,
    List,
}

impl Call {
    /// True if it may change what a decision is based on.
    pub(crate) const fn is_write(self) -> bool {
        matches!(self, Self::Put)
    }
}

/// Whether a failed write was carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Refused,
    Unknown,
}

/// The meaning of a failure.
struct Meaning(ErrorCode, Outcome, FailureSubject, &'static str);

const NO_CONDITIONS: &str =
    "the store has no writes with conditions, or they are turned off, and locks need them";

/// Makes the fault for an error that is no answer to a condition.
pub(crate) fn fault(error: &Error, call: Call) -> Fault {
    use Outcome::{Refused, Unknown};
    let Meaning(code, outcome, subject, message) = match error {
        Error::NotFound { .. } => {
            Meaning(InvalidArgument, Refused, Request, "there is no such bucket or container")
        }
        Error::PermissionDenied { .. } => {
            Meaning(AuthFailed, Refused, Request, "the store refused access to an object of locks")
        }
        Error::Unauthenticated { .. } => {
            Meaning(AuthFailed, Refused, Request, "the store refused the credentials")
        }
        Error::NotImplemented { .. } | Error::NotSupported { .. } => {
            Meaning(InvalidArgument, Refused, Request, NO_CONDITIONS)
        }
        Error::UnknownConfigurationKey { .. } | Error::InvalidPath { .. } => {
            Meaning(InvalidArgument, Refused, Request, "the store refused its configuration")
        }
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
            Meaning(ServiceUnavailable, Refused, Request, "the store reported a conflict")
        }
        Error::Generic { .. } => transport(error),
        // The enumeration may grow.
        _ => Meaning(Internal, Unknown, Request, "the store's driver failed"),
    };
    let error =
        LockError::new(code, message).with_source(&CallSource::new(words(call, error), error));
    let is_open = call.is_write() && outcome == Unknown;
    Fault::new(if is_open { error.with_unknown_outcome() } else { error }, subject)
}

#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
fn words(call: Call, error: &Error) -> String {
    let answered = answered(error).map(|status| format!(", answered with HTTP {status}"));
    format!("a {call:?}{}", answered.unwrap_or_default())
}

#[cfg(not(any(feature = "aws", feature = "azure", feature = "gcp")))]
fn words(call: Call, _: &Error) -> String {
    format!("a {call:?}")
}

const CUT: Meaning =
    Meaning(ServiceUnavailable, Outcome::Unknown, Connection, "the request to the store failed");

#[cfg(not(any(feature = "aws", feature = "azure", feature = "gcp")))]
fn transport(_: &Error) -> Meaning {
    CUT
}

/// The status of an answer that is none of those with a variant of the driver's error. The connector makes errors of them.
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
fn answered(error: &Error) -> Option<u16> {
    use syncguard_core::authoring::sources;
    sources(error).find_map(|source| source.downcast_ref::<crate::http::Answered>()).map(|it| it.0)
}

#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
#[rustfmt::skip]
fn transport(error: &Error) -> Meaning {
    use ErrorCode::{NetworkTimeout, RateLimited};
    use FailureSubject::Server;
    use Outcome::{Refused, Unknown};
    use object_store::client::{HttpError, HttpErrorKind};
    use syncguard_core::authoring::sources;

    if let Some(status) = answered(error) {
        return match status {
            300..400 => Meaning(InvalidArgument, Refused, Request, "the store sent the request elsewhere: wrong region or endpoint"),
            408 => Meaning(NetworkTimeout, Unknown, Connection, Fault::TIMED_OUT),
            429 => Meaning(RateLimited, Refused, Server, "the store takes no more requests for now"),
            501 => Meaning(InvalidArgument, Refused, Request, NO_CONDITIONS),
            // S3 says "slow down" so, which is no promise that nothing was written.
            503 => Meaning(ServiceUnavailable, Unknown, Server, "the store is busy or not available"),
            500.. => Meaning(ServiceUnavailable, Unknown, Server, "the store reported an internal error"),
            _ => Meaning(InvalidArgument, Refused, Request, "the store refused the request as invalid"),
        };
    }
    let http = sources(error).find_map(|source| source.downcast_ref::<HttpError>());
    match http.map(HttpError::kind) {
        Some(HttpErrorKind::Connect) => Meaning(ServiceUnavailable, Refused, Connection, "the store cannot be reached"),
        Some(HttpErrorKind::Timeout) => Meaning(NetworkTimeout, Unknown, Connection, Fault::TIMED_OUT),
        _ => CUT,
    }
}

#[cfg(all(test, any(feature = "aws", feature = "azure", feature = "gcp")))]
mod tests {
    use std::io;

    use object_store::client::{HttpError, HttpErrorKind};

    use super::*;
    use crate::http::Answered;

    /// The meaning for a write. No read leaves anything open, and no text of a server is passed on.
    fn meaning(error: &Error) -> (ErrorCode, FailureSubject, bool) {
        assert!(!fault(error, Call::Get).error.is_outcome_unknown());
        let Fault { error, subject, .. } = fault(error, Call::Put);
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        (error.code(), subject, error.is_outcome_unknown())
    }

    #[test]
    fn every_failure_is_what_the_table_says() {
        use ErrorCode::{NetworkTimeout, RateLimited};
        use FailureSubject::Server;
        let says =
            || (String::from("secret"), Box::<dyn std::error::Error + Send + Sync>::from("secret"));
        let (path, source) = says();
        assert_eq!(meaning(&Error::NotFound { path, source }), (InvalidArgument, Request, false));
        let (path, source) = says();
        assert_eq!(
            meaning(&Error::PermissionDenied { path, source }),
            (AuthFailed, Request, false)
        );
        let (path, source) = says();
        assert_eq!(meaning(&Error::Unauthenticated { path, source }), (AuthFailed, Request, false));
        let (_, source) = says();
        assert_eq!(meaning(&Error::NotSupported { source }), (InvalidArgument, Request, false));
        let (_, source) = says();
        let generic = Error::Generic { store: "S3", source };
        assert_eq!(meaning(&generic), (ServiceUnavailable, Connection, true));
        let http = |kind, source: io::Error| {
            let source = HttpError::new(kind, source);
            Error::Generic { store: "S3", source: source.into() }
        };
        for (kind, expected) in [
            (HttpErrorKind::Connect, (ServiceUnavailable, Connection, false)),
            (HttpErrorKind::Timeout, (NetworkTimeout, Connection, true)),
            (HttpErrorKind::Interrupted, (ServiceUnavailable, Connection, true)),
            (HttpErrorKind::Request, (ServiceUnavailable, Connection, true)),
        ] {
            assert_eq!(meaning(&http(kind, io::Error::other("secret"))), expected, "{kind:?}");
        }
        for (status, expected) in [
            (301, (InvalidArgument, Request, false)),
            (400, (InvalidArgument, Request, false)),
            (408, (NetworkTimeout, Connection, true)),
            (429, (RateLimited, Server, false)),
            (500, (ServiceUnavailable, Server, true)),
            (501, (InvalidArgument, Request, false)),
            (503, (ServiceUnavailable, Server, true)),
        ] {
            let source = HttpError::new(HttpErrorKind::Unknown, Answered(status));
            let error = Error::Generic { store: "S3", source: source.into() };
            assert_eq!(meaning(&error), expected, "{status}");
            let shown = format!("{:?}", fault(&error, Call::Put).error);
            assert!(shown.contains(&format!("HTTP {status}")), "{shown}");
        }
    }
}
