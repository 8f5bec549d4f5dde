//! Errors that read the same on every store.

use crate::LockError;
use crate::authoring::hash_key;

/// A stored record that makes no sense: `Internal`, naming the hash of the storage key.
///
/// Such a record is never treated as free and never deleted.
#[must_use]
pub fn corrupt_record(storage_key: &str, problem: &'static str) -> LockError {
    LockError::internal(format!("corrupt lock record {}: {problem}", hash_key(storage_key)))
}

/// The message of [`lock_id_in_use`].
pub const LOCK_ID_IN_USE: &str =
    "the lock id is in use by another key; every acquisition needs a fresh one";

/// The lock of another key has the lock id of this acquire: `InvalidArgument`.
#[must_use]
pub fn lock_id_in_use() -> LockError {
    LockError::invalid_argument(LOCK_ID_IN_USE)
}
