//! The process group of a command that this user may not be allowed to signal, as behind `sudo`.

use std::fmt;
use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process, test_kill_process_group};

/// The processes that are left of a group. Processes that have ended do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    /// Some processes, of which at least one gets our signals.
    Ours,
    /// Processes of other users only, which get none of our signals.
    OfOthers,
}

pub(super) fn rest_of(group: Pid) -> Rest {
    match test_kill_process_group(group) {
        // Also if the process that gets them has ended, and its parent has not seen it.
        Ok(()) => living_of(group).unwrap_or(Rest::Ours),
        Err(Errno::SRCH) => Rest::Nothing,
        Err(_) => Rest::OfOthers,
    }
}

/// `None` if the system does not tell.
fn living_of(group: Pid) -> Option<Rest> {
    let mut rest = Rest::Nothing;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name is in brackets, and may contain any character.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, of) = (fields.next(), fields.nth(1));
        let is_member = of.is_some_and(|of| of == group.as_raw_nonzero().to_string());
        if !is_member || matches!(state, Some("Z" | "X")) {
            continue;
        }
        match test_kill_process(pid) {
            Ok(()) => return Some(Rest::Ours),
            Err(Errno::SRCH) => {}
            Err(_) => rest = Rest::OfOthers,
        }
    }
    // Without the file system, or its own processes in it, nothing was learnt.
    fs::exists("/proc/self/stat").is_ok_and(|is_there| is_there).then_some(rest)
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
