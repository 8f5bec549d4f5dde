//! The key of a lock, as it is shown.

use syncguard::LockInfo;

use crate::escape::escape_for_terminal;

/// The key in clear text: the user has asked to see it.
pub(super) fn key_of(info: &LockInfo) -> String {
    info.key.expose().to_owned()
}

/// The key for a terminal: control characters and invisible characters are escaped.
pub(super) fn key_for_terminal(info: &LockInfo) -> String {
    escape_for_terminal(&key_of(info))
}
