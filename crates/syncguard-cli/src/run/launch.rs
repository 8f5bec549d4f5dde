//! The process between this program and the command: it asks the system to end it with its parent,
//! and then becomes the command.
//!
//! A `pre_exec` could do the same, but needs unsafe code.

use std::env::ArgsOs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use super::watchdog::{is_over, watch_own_group};
use crate::exit::Status;

/// The first argument of the launch process.
pub(crate) const NAME: &str = "__launch";

/// The argument that says whether the command waits until it has the terminal.
pub(super) fn waits_argument(for_terminal: bool) -> &'static str {
    if for_terminal { "waits" } else { "goes" }
}

/// Runs `__launch PARENT WATCHDOG DEADLINE waits|goes PATH NAME ARGUMENTS…`.
pub(crate) fn main(mut arguments: std::iter::Skip<ArgsOs>) -> ExitCode {
    let parent = arguments.next();
    let parent = parent.as_ref().and_then(|parent| parent.to_str()?.parse::<i32>().ok());
    let watchdog = arguments.next();
    let watchdog = watchdog.as_ref().and_then(|watchdog| watchdog.to_str()?.parse::<u32>().ok());
    let deadline = arguments.next();
    let waits = arguments.next();
    let (Some(parent), Some(deadline), Some(path), Some(name)) =
        (parent, deadline, arguments.next(), arguments.next())
    else {
        return Status::USAGE.into();
    };
    if !die_with(parent) {
        // The holder of the lock is gone already.
        return Status::LOST.into();
    }
    if let Some(watchdog) = watchdog {
        watch_own_group(watchdog);
    }
    if waits.is_some_and(|word| word == waits_argument(true)) {
        wait_for_terminal();
    }
    let mut command = Command::new(path);
    command.arg0(&name).args(arguments);
    // The whole of syncguard may have been frozen, as by `docker pause`. This is the last look.
    if is_over(&deadline) {
        tell("the lock was over before the command could begin; it was not started");
        return Status::LOST.into();
    }
    // `exec` returns only if it fails.
    let error = command.exec();
    tell(&format!("{}: {error}", name.display()));
    match error.kind() {
        ErrorKind::NotFound => Status::NOT_FOUND.into(),
        _ => Status::NOT_EXECUTABLE.into(),
    }
}

/// A failure here cannot be reported anywhere.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "syncguard: {text}");
}

/// Asks the system to kill this process, and the command that it becomes, when the parent ends.
/// Returns whether the parent still runs.
fn die_with(parent: i32) -> bool {
    use rustix::process::getppid;

    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        // If this fails, the watchdog still watches.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
    getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent)
}

/// A command that reads before it has the terminal would be stopped.
fn wait_for_terminal() {
    use rustix::process::getpgrp;
    use rustix::termios::tcgetpgrp;
    use std::thread::sleep;
    use std::time::Duration;

    // The terminal is lent at once. If that fails, the command runs without it.
    for _ in 0..500 {
        if tcgetpgrp(std::io::stdin()).is_ok_and(|owner| owner == getpgrp()) {
            return;
        }
        sleep(Duration::from_millis(1));
    }
}
