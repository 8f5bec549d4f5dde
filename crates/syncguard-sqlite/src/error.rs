//! Classifies SQLite's errors.

use std::io;

use rusqlite::ffi;
use syncguard_core::{ErrorCode, LockError};

/// The failure of an operation.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The operation is refused, and has written nothing.
    Refused(LockError),
    /// SQLite failed, and may have written a part.
    Sqlite(rusqlite::Error),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Failure {
    /// Returns whether another process has locked the file for the moment.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_busy(error))
    }

    pub(crate) fn into_error(self) -> LockError {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => classify(&error),
        }
    }
}

/// Returns whether another process has locked the file for the moment: a retry may succeed.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| primary(error.extended_code));
    matches!(code, Some(ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL))
}

/// Returns whether the disk has no room for a write. A limit or a quota is reported as a write that failed.
pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(ffi::SQLITE_FULL | ffi::SQLITE_IOERR_WRITE))
}

/// Makes the error for the caller. It contains only SQLite's code, because SQLite's messages can contain
/// paths and statements.
pub(crate) fn classify(error: &rusqlite::Error) -> LockError {
    let Some(said) = error.sqlite_error() else {
        return LockError::internal("SQLite gave an answer that makes no sense");
    };
    let primary = primary(said.extended_code);
    let row = TABLE.iter().find(|(code, ..)| *code == said.extended_code);
    let row = row.or_else(|| TABLE.iter().find(|(code, ..)| *code == primary));
    let (code, message) = match row {
        Some((_, code, message)) => (*code, *message),
        None if lacks_tables(error) => (ErrorCode::Internal, NO_TABLES),
        None => (ErrorCode::Internal, "SQLite failed"),
    };
    let failed =
        LockError::new(code, message).with_source(&SqliteSaid { code: said.extended_code });
    let is_lost = [DAMAGED, MOVED, NO_TABLES].contains(&message);
    if is_lost { failed.with_record_lost() } else { failed }
}

/// SQLite has no code for this; the beginning of its text has stood for twenty years.
fn lacks_tables(error: &rusqlite::Error) -> bool {
    let text = error.to_string();
    text.starts_with("no such table") || text.starts_with("no such column")
}

const fn primary(extended: i32) -> i32 {
    extended & 0xff
}

/// The table of codes, extended codes first, then primary codes. A code without a row is `Internal`.
#[rustfmt::skip]
const TABLE: &[(i32, ErrorCode, &str)] = &[
    (ffi::SQLITE_IOERR_SHORT_READ, ErrorCode::Internal, DAMAGED),
    (ffi::SQLITE_IOERR_CORRUPTFS, ErrorCode::Internal, "the file system is damaged"),
    (ffi::SQLITE_IOERR_DATA, ErrorCode::Internal, DAMAGED),
    (ffi::SQLITE_READONLY_DBMOVED, ErrorCode::Internal, MOVED),
    (ffi::SQLITE_IOERR_SHMSIZE, ErrorCode::ServiceUnavailable, "the disk of the lock file is full: there is no room for the file -shm beside it"),
    (ffi::SQLITE_IOERR_WRITE, ErrorCode::ServiceUnavailable, "the lock file, or a file beside it, cannot be written: the disk failed, or a quota or a limit of the size of files is reached"),
    (ffi::SQLITE_IOERR_NOMEM, ErrorCode::ServiceUnavailable, "SQLite has no memory"),
    (ffi::SQLITE_AUTH, ErrorCode::AuthFailed, NOT_WRITABLE),
    (ffi::SQLITE_BUSY, ErrorCode::ServiceUnavailable, BUSY),
    (ffi::SQLITE_CANTOPEN, ErrorCode::ServiceUnavailable, "the lock file, or a file beside it, cannot be opened; the user needs to read and write all three, and to write to their folder"),
    (ffi::SQLITE_CORRUPT, ErrorCode::Internal, DAMAGED),
    (ffi::SQLITE_FULL, ErrorCode::ServiceUnavailable, FULL),
    (ffi::SQLITE_IOERR, ErrorCode::ServiceUnavailable, "the disk of the lock file failed"),
    (ffi::SQLITE_LOCKED, ErrorCode::ServiceUnavailable, BUSY),
    (ffi::SQLITE_NOLFS, ErrorCode::ServiceUnavailable, "the lock file is larger than the file system allows"),
    (ffi::SQLITE_NOMEM, ErrorCode::ServiceUnavailable, "SQLite has no memory"),
    (ffi::SQLITE_NOTADB, ErrorCode::Internal, DAMAGED),
    (ffi::SQLITE_PERM, ErrorCode::AuthFailed, NOT_WRITABLE),
    (ffi::SQLITE_PROTOCOL, ErrorCode::ServiceUnavailable, BUSY),
    (ffi::SQLITE_READONLY, ErrorCode::AuthFailed, NOT_WRITABLE),
];

const BUSY: &str =
    "another process kept the lock file locked for longer than the operation timeout";
const FULL: &str = "the disk of the lock file is full, or can have no further file";
const DAMAGED: &str = "the lock file is damaged; stop all programs that use it, and put a new file or a backup in its place; locks that were held are lost";
const NO_TABLES: &str = "the lock file does not have the tables of locks any more: its content was replaced, or they were dropped; locks that were held are lost";
const NOT_WRITABLE: &str = "the lock file cannot be written: the user lacks the permission, or the file system is read-only";
const MOVED: &str = "the lock file, or a file beside it, was deleted or replaced while this program had it open; others may hold the same locks in another file: stop all programs that use it, and start them again";

/// Another process kept the file locked; nothing was done.
pub(crate) fn busy() -> LockError {
    LockError::new(ErrorCode::ServiceUnavailable, BUSY)
}

/// The file is not the file that was opened.
pub(crate) fn moved() -> LockError {
    LockError::internal(MOVED).with_record_lost()
}

/// The file may still be there, but cannot be looked at.
pub(crate) fn unseen(error: &io::Error) -> LockError {
    const MESSAGE: &str = "it cannot be seen whether the lock file is still in its place";
    LockError::new(ErrorCode::ServiceUnavailable, MESSAGE).with_source(error)
}

/// Returns whether SQLite could not open a file. SQLite does not say why; often a permission is missing.
pub(crate) fn is_cannot_open(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| primary(error.extended_code) == ffi::SQLITE_CANTOPEN)
}

/// The disk has no room, or can have no further file.
pub(crate) fn full(error: &rusqlite::Error) -> LockError {
    let said = error.sqlite_error().map_or(0, |error| error.extended_code);
    LockError::new(ErrorCode::ServiceUnavailable, FULL).with_source(&SqliteSaid { code: said })
}

/// The user lacks a permission.
pub(crate) fn not_writable(error: &rusqlite::Error) -> LockError {
    let said = error.sqlite_error().map_or(0, |error| error.extended_code);
    LockError::new(ErrorCode::AuthFailed, NOT_WRITABLE).with_source(&SqliteSaid { code: said })
}

/// The file is too short for a database.
pub(crate) fn damaged() -> LockError {
    LockError::internal(DAMAGED).with_record_lost()
}

/// The deadline has passed; nothing was done.
pub(crate) fn late() -> LockError {
    LockError::new(
        ErrorCode::NetworkTimeout,
        "the disk of the lock file did not answer within the operation timeout",
    )
}

/// The writer thread has ended.
pub(crate) fn ended() -> LockError {
    LockError::internal("the thread that works on the lock file has ended; open the file anew")
}

/// A code of SQLite with SQLite's text for it.
#[derive(Debug, thiserror::Error)]
#[error("SQLite {code}: {}", ffi::code_to_str(*.code))]
struct SqliteSaid {
    code: i32,
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn failed(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some("hunter2".to_owned()))
    }

    #[test]
    fn every_row_of_the_table_is_found() {
        for (code, expected, message) in TABLE {
            let error = classify(&failed(*code));
            assert_eq!((error.code(), error.message()), (*expected, *message), "{code}");
            assert_eq!(error.is_record_lost(), [DAMAGED, MOVED].contains(message), "{code}");
            assert!(!format!("{error:?}").contains("hunter2"));
            assert!(error.source().unwrap().to_string().starts_with("SQLite "));
        }
    }

    #[test]
    fn extended_codes_fall_back_to_the_primary_ones() {
        for (code, expected) in [
            (ffi::SQLITE_IOERR_FSYNC, ErrorCode::ServiceUnavailable),
            (ffi::SQLITE_IOERR_WRITE, ErrorCode::ServiceUnavailable),
            (ffi::SQLITE_READONLY_DIRECTORY, ErrorCode::AuthFailed),
            (ffi::SQLITE_CORRUPT_INDEX, ErrorCode::Internal),
            (ffi::SQLITE_MISUSE, ErrorCode::Internal),
        ] {
            assert_eq!(classify(&failed(code)).code(), expected, "{code}");
        }
        assert_eq!(classify(&rusqlite::Error::InvalidQuery).code(), ErrorCode::Internal);
    }

    #[test]
    fn only_what_others_do_is_tried_again() {
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_RECOVERY, ffi::SQLITE_PROTOCOL] {
            assert!(is_busy(&failed(code)));
        }
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR, ffi::SQLITE_CORRUPT] {
            assert!(!is_busy(&failed(code)));
        }
    }
}
