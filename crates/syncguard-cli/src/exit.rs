//! Exit statuses and failures.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use syncguard::{ErrorCode, LockError};

use crate::shell_messages::for_shell;

/// An exit status. Failures have the numbers of `sysexits.h`, which never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(u8);

impl Status {
    pub(crate) const SUCCESS: Self = Self(0);
    /// `EX_USAGE`
    pub(crate) const USAGE: Self = Self(64);
    /// `EX_UNAVAILABLE`: the store is away.
    pub(crate) const UNAVAILABLE: Self = Self(69);
    /// `EX_SOFTWARE`
    pub(crate) const INTERNAL: Self = Self(70);
    /// `EX_OSERR`
    pub(crate) const SYSTEM: Self = Self(71);
    /// `EX_TEMPFAIL`: another process holds the lock.
    pub(crate) const CONFLICT: Self = Self(75);
    /// `EX_PROTOCOL`: the lock was lost while the command ran.
    pub(crate) const LOST: Self = Self(76);
    /// `EX_NOPERM`
    pub(crate) const NO_PERMISSION: Self = Self(77);
    /// `EX_CONFIG`: the store is not safe for locks.
    pub(crate) const CONFIGURATION: Self = Self(78);
    /// The tick was run before. `sysexits.h` has no numbers above 78.
    #[cfg(feature = "ticks")]
    pub(crate) const TAKEN: Self = Self(79);
    /// A clock is wrong: the tick is too early by the store's, or the last one is in the future.
    #[cfg(feature = "ticks")]
    pub(crate) const EARLY: Self = Self(80);
    /// No tick is due.
    #[cfg(feature = "ticks")]
    pub(crate) const MISSED: Self = Self(81);
    /// Nothing has the label or the hash that was asked for.
    pub(crate) const NONE_FOUND: Self = Self(82);
    pub(crate) const NOT_EXECUTABLE: Self = Self(126);
    pub(crate) const NOT_FOUND: Self = Self(127);
    /// 128 + SIGPIPE, as for other programs whose reader has gone.
    pub(crate) const NO_READER: Self = Self(141);

    pub(crate) const fn new(status: u8) -> Self {
        Self(status)
    }

    /// The status that a shell reports for a process that a signal ended.
    pub(crate) fn of_signal(signal: i32) -> Self {
        Self(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.0)
    }
}

/// The reason why the command failed. `Display` is the message for the user.
#[derive(Debug)]
pub(crate) struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Status::USAGE, message)
    }

    /// A refusal by the operating system.
    pub(crate) fn system(what: &str, error: &dyn Error) -> Self {
        Self::new(Status::SYSTEM, format!("{what}: {error}"))
    }

    /// Standard output, or the terminal, refused the output.
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub(crate) fn output(error: io::Error) -> Self {
        let failure = Self::system("the output cannot be written", &error);
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { status: Status::NO_READER, ..failure },
            _ => failure,
        }
    }

    /// True if no message is wanted: the reader of the output has gone, as behind `| head -1`.
    pub(crate) fn is_silent(&self) -> bool {
        self.status == Status::NO_READER
    }

    pub(crate) fn status(&self) -> Status {
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<LockError> for Failure {
    /// Includes the causes. The library's errors never show a key or a password.
    fn from(error: LockError) -> Self {
        let code = status_of(error.code());
        let mut message = error.message().to_owned();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        Self::new(code, for_shell(&message))
    }
}

fn status_of(code: ErrorCode) -> Status {
    match code {
        ErrorCode::ServiceUnavailable | ErrorCode::NetworkTimeout | ErrorCode::RateLimited => {
            Status::UNAVAILABLE
        }
        ErrorCode::AuthFailed => Status::NO_PERMISSION,
        ErrorCode::InvalidArgument => Status::USAGE,
        ErrorCode::AcquisitionTimeout => Status::CONFLICT,
        _ => Status::INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that limits its callers is away for now, as one that does not answer.
    #[test]
    fn each_code_has_its_status() {
        for (code, status) in [
            (ErrorCode::ServiceUnavailable, 69),
            (ErrorCode::NetworkTimeout, 69),
            (ErrorCode::RateLimited, 69),
            (ErrorCode::AuthFailed, 77),
            (ErrorCode::InvalidArgument, 64),
            (ErrorCode::AcquisitionTimeout, 75),
            (ErrorCode::Internal, 70),
        ] {
            assert_eq!(status_of(code), Status(status), "{code}");
        }
    }
}
