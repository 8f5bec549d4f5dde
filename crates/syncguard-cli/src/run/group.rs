//! The process group of a command that this user may not be allowed to signal, as behind `sudo`.

use std::fmt;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};

/// What is left of a process group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    /// Some processes, of which at least one gets our signals. Processes that have ended count until their parent has
    /// seen it.
    Ours,
    /// Processes of other users only, which get none of our signals.
    OfOthers,
}

pub(super) fn rest_of(group: Pid) -> Rest {
    match test_kill_process_group(group) {
        Ok(()) => Rest::Ours,
        Err(Errno::SRCH) => Rest::Nothing,
        Err(_) => Rest::OfOthers,
    }
}

/// The command runs as another user, and the system refuses to signal it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunsAsAnother;

impl fmt::Display for RunsAsAnother {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the command, or a part of it, runs as another user, so this user cannot end it, and it goes on. Change the \
             order: `sudo syncguard run KEY -- JOB` instead of `syncguard run KEY -- sudo JOB`",
        )
    }
}
