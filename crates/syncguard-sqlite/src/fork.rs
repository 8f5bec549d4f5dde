//! Detects use in a forked child process.
//!
//! SQLite keeps the list of its open files and of its locks on them in the memory of the process. A fork
//! copies this list, but not the locks and not the threads. So in the child, files opened before the fork do
//! not work, and opening them again does not work either. A child that runs another program (`exec`) has no
//! such list, and SQLite's files are closed in it.

use std::sync::atomic::{AtomicU32, Ordering};

use syncguard_core::LockError;

/// The id of the process that opened a file first.
static OPENED_BY: AtomicU32 = AtomicU32::new(0);

/// Records that this process is about to open a file.
///
/// # Errors
///
/// As [`check`].
pub(crate) fn opens() -> Result<(), LockError> {
    let this = std::process::id();
    let before = OPENED_BY.compare_exchange(0, this, Ordering::AcqRel, Ordering::Acquire);
    before.map_or_else(|other| compare(other, this), |_| Ok(()))
}

/// Checks that this process is not a forked child.
///
/// # Errors
///
/// `InvalidArgument` in a child of the process that has opened a file.
pub(crate) fn check() -> Result<(), LockError> {
    compare(OPENED_BY.load(Ordering::Acquire), std::process::id())
}

fn compare(opened_by: u32, this: u32) -> Result<(), LockError> {
    if opened_by == this {
        return Ok(());
    }
    Err(LockError::invalid_argument(
        "this process was forked from one that had a lock file open; open lock files after the fork, or run a program of its own in the child",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_told() {
        assert!(compare(7, 7).is_ok());
        assert!(compare(7, 8).unwrap_err().message().contains("forked"));
    }
}
