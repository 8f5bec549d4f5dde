//! The end of a case. Failures are values, so that a suite can go on and a test can expect them.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;

use syncguard_core::LockError;

pub(crate) type Outcome = Result<(), Stop>;

/// The result of a step.
pub(crate) type Checked<T> = Result<T, Unexpected>;

/// A running case.
pub(crate) type BoxedCase<'c> = Pin<Box<dyn Future<Output = Outcome> + Send + 'c>>;

/// Why a case ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The rule is broken.
    Failed { message: String, at: &'static Location<'static> },
    /// The steps came too late to prove the rule.
    TooSlow { message: String, at: &'static Location<'static> },
    /// The rule does not apply to this backend.
    NotApplicable(&'static str),
}

impl Stop {
    #[track_caller]
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), at: Location::caller() }
    }

    #[track_caller]
    pub(crate) fn too_slow(message: impl Into<String>) -> Self {
        Self::TooSlow { message: message.into(), at: Location::caller() }
    }
}

/// A step with an unexpected result. At the `?` of the case it becomes a failure with its place.
#[derive(Debug)]
pub(crate) struct Unexpected(String);

impl Unexpected {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The answer of an operation that must not fail.
pub(crate) fn answer<T>(operation: &str, answer: Result<T, LockError>) -> Checked<T> {
    answer.map_err(|error| Unexpected(format!("{operation} failed with {error}")))
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<LockError> for Unexpected {
    fn from(error: LockError) -> Self {
        Self(format!("the suite's own request failed with {error}"))
    }
}

impl From<Unexpected> for Stop {
    #[track_caller]
    fn from(unexpected: Unexpected) -> Self {
        Self::failed(unexpected.0)
    }
}

impl From<LockError> for Stop {
    #[track_caller]
    fn from(error: LockError) -> Self {
        Self::failed(format!("an operation failed with {error}"))
    }
}

/// The effect of a failed check: the end of a case, or of a step that any case can take.
pub(crate) trait Failing {
    fn failing(message: String) -> Self;
}

impl Failing for Stop {
    #[track_caller]
    fn failing(message: String) -> Self {
        Self::failed(message)
    }
}

impl Failing for Unexpected {
    fn failing(message: String) -> Self {
        Self(message)
    }
}

/// Fails the case or the step unless the condition holds. The message says what was found, not what was expected.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if $condition {
        } else {
            return Err($crate::outcome::Failing::failing(format!($($message)+)));
        }
    };
}

/// Fails the case or the step unless both values are equal, and shows them.
macro_rules! ensure_eq {
    ($found:expr, $expected:expr, $($message:tt)+) => {
        // A match keeps temporaries alive.
        match (&$found, &$expected) {
            (found, expected) => ensure!(
                found == expected,
                "{}: found {found:?}, expected {expected:?}",
                format_args!($($message)+)
            ),
        }
    };
}

pub(crate) use {ensure, ensure_eq};
