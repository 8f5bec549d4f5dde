//! A `syncguard run` within the command of another one.

use std::env;

use crate::store::{Store, without_password};

/// The message for a command that asks for the lock it has already.
pub(super) const OWN: &str = "this command runs under this very lock: the `syncguard run` around it holds the lock until \
                              this command has ended; take the lock in one place, or give one of them another key";

/// Whether the lock that is asked for is that of the `syncguard run` which has started this command.
pub(super) fn is_own(key: &str, store: &Store, is_permit: bool) -> bool {
    let says = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    says("SYNCGUARD_KEY", key)
        && says("SYNCGUARD_STORE", &without_password(store.expose()))
        // One of several permits is not what another one waits for, and is another lock than that of the same key.
        && env::var_os("SYNCGUARD_SLOT").is_none()
        && !is_permit
}
