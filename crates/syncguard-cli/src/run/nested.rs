//! Detects a `syncguard run` inside the command of another `syncguard run`.

use std::env;

use crate::store::{Store, without_password};

/// The message for a command that asks for the lock that it already runs under.
pub(super) const MESSAGE: &str = "this command already runs under this lock, which the `syncguard run` around it holds until \
                                  this command ends: it would wait for itself. Take the lock in one place, or give one \
                                  of the two another key";

/// Returns whether the requested lock is the lock of the `syncguard run` that started this command.
pub(super) fn is_nested(key: &str, store: &Store, is_permit: bool) -> bool {
    let is_set = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    is_set("SYNCGUARD_KEY", key)
        && is_set("SYNCGUARD_STORE", &without_password(store.expose()))
        // A permit differs from the lock of the same key, and another permit may be free.
        && env::var_os("SYNCGUARD_SLOT").is_none()
        && !is_permit
}
