//! The process between this program and the command: it asks the system to be ended with its parent, and becomes
//! the command.
//!
//! It does what a `pre_exec` would do, which needs unsafe code.

use std::env::ArgsOs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use super::keeper::watch_me;
use crate::exit::Status;

/// The first argument of such a process.
pub(crate) const NAME: &str = "__launch";

/// The second argument: whether the command is to wait until it has the terminal.
pub(super) fn waits(for_terminal: bool) -> &'static str {
    if for_terminal { "waits" } else { "goes" }
}

/// `__launch PARENT KEEPER waits|goes PATH NAME ARGUMENTS…`
pub(crate) fn main(mut arguments: std::iter::Skip<ArgsOs>) -> ExitCode {
    let parent = arguments.next();
    let parent = parent.as_ref().and_then(|parent| parent.to_str()?.parse::<i32>().ok());
    let keeper = arguments.next();
    let keeper = keeper.as_ref().and_then(|keeper| keeper.to_str()?.parse::<u32>().ok());
    let waits = arguments.next();
    let (Some(parent), Some(path), Some(name)) = (parent, arguments.next(), arguments.next())
    else {
        return Status::USAGE.into();
    };
    if !ends_with(parent) {
        // Whoever holds the lock is gone already.
        return Status::LOST.into();
    }
    if let Some(keeper) = keeper {
        watch_me(keeper);
    }
    if waits.is_some_and(|word| word == self::waits(true)) {
        wait_for_terminal();
    }
    // Comes back only if it fails.
    let error = Command::new(path).arg0(&name).args(arguments).exec();
    let _ = writeln!(std::io::stderr().lock(), "syncguard: {}: {error}", name.display());
    match error.kind() {
        ErrorKind::NotFound => Status::NOT_FOUND.into(),
        _ => Status::NOT_EXECUTABLE.into(),
    }
}

/// Has the system kill this process, and what it becomes, when its parent ends. Answers whether the parent is
/// still there.
fn ends_with(parent: i32) -> bool {
    use rustix::process::getppid;

    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        // Without it the keeper is there.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
    getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent)
}

/// A command that read from the terminal before it had it would be stopped.
fn wait_for_terminal() {
    use rustix::process::getpgrp;
    use rustix::termios::tcgetpgrp;
    use std::thread::sleep;
    use std::time::Duration;

    // It is lent at once, unless that fails: then the command has to do without.
    for _ in 0..500 {
        if tcgetpgrp(std::io::stdin()).is_ok_and(|owner| owner == getpgrp()) {
            return;
        }
        sleep(Duration::from_millis(1));
    }
}
