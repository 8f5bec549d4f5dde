//! The started command.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use syncguard::Held;
use tokio::process::{Child, Command};

use super::allowance::{allowed_time, time_to_begin};
use super::group::{Rest, RunsAsAnother, rest_of};
use super::launch;
use super::options::LossAction;
use super::program::Program;
use super::sharing;
use super::terminal::Terminal;
use super::this_program::this_program;
use super::watchdog::{Watchdog, deadline_of};
use crate::exit::Failure;
use crate::signals;

/// A running command in a process group of its own.
pub(super) struct Job {
    child: Child,
    group: Pid,
    pub(super) watchdog: Watchdog,
    pub(super) terminal: Option<Terminal>,
}

impl Job {
    /// Starts the command, unless its lock is over by then. The watchdog ends it when the lock is over, if no further
    /// order comes. Call this on the main thread: the parent-death signal follows the end of the calling thread.
    pub(super) async fn start(
        program: &Program,
        arguments: &[OsString],
        environment: &[(&str, String)],
        held: &Held,
        loss_action: LossAction,
    ) -> Result<Self, Failure> {
        let mut watchdog = Watchdog::start()?;
        if let Some(allowed) = allowed_time(held, loss_action) {
            watchdog.allow_for(allowed).await;
        }
        let mut command = Command::new(this_program()?);
        let may_lend = Terminal::is_ours();
        command
            .arg0("syncguard")
            .arg(launch::NAME)
            .arg(std::process::id().to_string())
            .arg(watchdog.id().unwrap_or_default().to_string())
            .arg(deadline_of(time_to_begin(held)))
            .arg(launch::waits_argument(may_lend));
        command.arg(&program.path).arg(&program.name).args(arguments);
        for name in ["SYNCGUARD_SLOT", "SYNCGUARD_TICK", "SYNCGUARD_ATTEMPT", sharing::VARIABLE] {
            command.env_remove(name);
        }
        command.envs(environment.iter().map(|(name, value)| (name, value))).process_group(0);
        let refused = |error: io::Error| Failure::system("the command cannot be started", &error);
        let child = command.spawn().map_err(refused)?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let group = group.ok_or_else(|| refused(io::Error::other("it has no process id")))?;
        let terminal = Terminal::lend(group);
        watchdog.watch(group).await;
        Ok(Self { child, group, watchdog, terminal })
    }

    /// Waits until the command itself ends. Other processes of its group may still run.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Forwards a signal. Signals to end, stop or continue go to the whole group, as from a
    /// terminal. Other signals go to the command alone: its children may not handle them, and would
    /// die.
    ///
    /// # Errors
    ///
    /// Fails if no process got the signal, because all of them run as another user.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), RunsAsAnother> {
        let sent = if signals::asks_to_end(signal)
            || [Signal::KILL, Signal::TSTP, Signal::CONT].contains(&signal)
        {
            kill_process_group(self.group, signal)
        } else {
            kill_process(self.group, signal)
        };
        match sent {
            // The processes may have ended already.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(_) => Err(RunsAsAnother),
        }
    }

    /// The processes that are left of the group.
    pub(super) fn rest(&self) -> Rest {
        rest_of(self.group)
    }

    /// Reaps orphans of commands, if this process gets them. Those of this group would count as alive.
    pub(super) fn reap_orphans(&self) {
        signals::reap_orphans(&[self.child.id(), self.watchdog.id()]);
    }

    /// The signal that stopped the command, such as SIGTSTP after Ctrl-Z. `None` if the command is
    /// not stopped, or if this stop was already returned.
    pub(super) fn stopped_by(&self) -> Option<Signal> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.group), options).ok()??;
        Signal::from_named_raw(status.stopping_signal()?)
    }

    /// Returns whether a shell waits for this program to stop as well. Without a terminal, a
    /// SIGSTOP is meant for the command alone, and its sender continues the command alone.
    pub(super) fn is_stopped_from_terminal(&self, signal: Signal) -> bool {
        self.terminal.is_some() || [Signal::TSTP, Signal::TTIN, Signal::TTOU].contains(&signal)
    }

    /// Lends the terminal to the command again, after this process got it back.
    pub(super) fn lend_terminal(&mut self) {
        self.terminal = Terminal::lend(self.group);
    }
}
