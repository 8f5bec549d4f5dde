//! Errors that read the same on every store.

use crate::value::{LockError, hash_key};

/// The error for a corrupt record: `Internal`, with the hash of the storage key.
///
/// A corrupt record never counts as free and is never deleted. A guard whose extend finds one is over: the error
/// [says so](LockError::is_record_lost).
#[must_use]
pub fn corrupt_record(storage_key: &str, problem: &'static str) -> LockError {
    let hash = hash_key(storage_key);
    LockError::internal(format!("corrupt lock record {hash}: {problem}")).with_record_lost()
}

/// The message for an acquire whose lock id another key's lock has, which is an `InvalidArgument`.
pub const LOCK_ID_IN_USE: &str =
    "the lock id is in use by another key; every acquisition needs a fresh one";
