//! Who reads from the terminal and gets its Ctrl-C.

use std::io::{stdin, stdout};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

/// The terminal, lent to the group of the command. Dropping it takes it back.
///
/// Only where this program has it, and talks to it on both sides: in a pipe the terminal belongs to all of the pipe.
pub(super) struct Terminal {
    owner: Pid,
}

impl Terminal {
    pub(super) fn lend(group: Pid) -> Option<Self> {
        (Self::is_ours() && give(group)).then(|| Self { owner: getpgrp() })
    }

    /// Whether this process has it.
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

/// Whoever is in the background and gives the terminal away is stopped by SIGTTOU, unless it is blocked.
fn give(group: Pid) -> bool {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTTOU);
    let before = SigSet::thread_get_mask();
    let was_blocked = blocked.thread_block().is_ok();
    let is_given = was_blocked && tcsetpgrp(stdin(), group).is_ok();
    if let (true, Ok(before)) = (was_blocked, before) {
        // It was the mask a moment ago.
        let _ = before.thread_set_mask();
    }
    is_given
}
