//! Lends the terminal, for input and Ctrl-C, to the command.

use std::io::{stdin, stdout};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

/// The terminal, lent to the group of the command. Dropping it takes the terminal back.
///
/// The terminal is lent only if this program has it, as standard input and as standard output: in a
/// pipeline the terminal belongs to the whole pipeline.
pub(super) struct Terminal {
    owner: Pid,
}

impl Terminal {
    pub(super) fn lend(group: Pid) -> Option<Self> {
        (Self::is_ours() && give(group)).then(|| Self { owner: getpgrp() })
    }

    /// Returns whether this process has the terminal.
    pub(super) fn is_ours() -> bool {
        isatty(stdin())
            && isatty(stdout())
            && tcgetpgrp(stdin()).is_ok_and(|owner| owner == getpgrp())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give(self.owner);
    }
}

/// Gives the terminal to a group. A background process that does this gets SIGTTOU, so the signal
/// is blocked meanwhile.
fn give(group: Pid) -> bool {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTTOU);
    let before = SigSet::thread_get_mask();
    let was_blocked = blocked.thread_block().is_ok();
    let is_given = was_blocked && tcsetpgrp(stdin(), group).is_ok();
    if let (true, Ok(before)) = (was_blocked, before) {
        // The mask was valid a moment ago, so this does not fail.
        let _ = before.thread_set_mask();
    }
    is_given
}
