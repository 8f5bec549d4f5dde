//! The process that kills the command's group when this program cannot, because it was killed, or
//! is stopped until its lock has expired.
//!
//! On Linux the command also has a parent-death signal. That signal does not reach the children of
//! the command, is cleared when the command executes a program with other privileges, and knows no
//! deadline. A command that runs as another user can be ended by neither; the watchdog then says so.

mod process;
mod protocol;

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use self::process::COMMAND_NAME;
pub(crate) use self::process::main;
use self::protocol::{DISMISSED, deadline_order, group_order, now};
pub(crate) use self::protocol::{NAME, deadline_of, is_over, watch_own_group};
use super::this_program::this_program;
use crate::exit::Failure;

/// The watchdog of one command, as this program sees it. A watchdog that is gone is replaced.
pub(super) struct Watchdog {
    program: PathBuf,
    // Not killed with this handle: if this program dies, the watchdog has to outlive it for a moment.
    process: Child,
    orders: ChildStdin,
    started: Instant,
    /// True if the watchdog has died, was stopped, or does not read.
    is_gone: bool,
    /// The last orders, for a replacement.
    group: Option<Pid>,
    deadline: Option<Duration>,
}

impl Watchdog {
    /// A watchdog reads its orders at once. A watchdog that does not read for this long counts as gone.
    const WRITE_TIMEOUT: Duration = Duration::from_millis(100);

    /// The shortest time between two starts, so that nothing spins if each watchdog dies at once.
    const RESTART_PAUSE: Duration = Duration::from_millis(100);

    pub(super) fn start() -> Result<Self, Failure> {
        let program = this_program()?;
        let started = spawn(&program, &[]);
        let (process, orders) =
            started.map_err(|error| Failure::system("a process cannot be started", &error))?;
        let started = Instant::now();
        Ok(Self { program, process, orders, started, is_gone: false, group: None, deadline: None })
    }

    /// The process id of the watchdog, which the command needs for [`watch_own_group`].
    pub(super) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends the group to kill.
    pub(super) async fn watch(&mut self, group: Pid) {
        self.group = Some(group);
        self.send(&group_order(group)).await;
    }

    /// Allows the group to run for this long if no further order comes.
    pub(super) async fn allow_for(&mut self, time: Duration) {
        // The order is a deadline and no duration: the watchdog may read it late.
        let deadline = now().saturating_add(time);
        self.deadline = Some(deadline);
        self.send(&deadline_order(deadline)).await;
    }

    /// Replaces a watchdog that has died or was stopped. Call this when a child of this process has
    /// changed.
    pub(super) fn replace_if_gone(&mut self) {
        if self.has_ended_or_stopped() {
            self.is_gone = true;
            self.replace();
        }
    }

    /// Ends the watchdog after the command has ended.
    pub(super) async fn dismiss(mut self) {
        if !self.is_gone && self.write(DISMISSED).await {
            drop(self.orders);
            // The watchdog ends at once after this order.
            if timeout(Duration::from_secs(1), self.process.wait()).await.is_ok() {
                return;
            }
        }
        // Killed at once: the end of its orders would make it kill the group, whose number may
        // belong to other processes by now.
        let _ = self.process.start_kill();
    }

    /// Returns in bounded time: the loss of the lock, signals and the end of the command are
    /// handled after it.
    async fn send(&mut self, order: &str) {
        if self.is_gone || !self.write(order).await {
            self.is_gone = true;
            self.replace();
        }
    }

    /// Returns whether the watchdog has the order.
    async fn write(&mut self, order: &str) -> bool {
        let written = timeout(Self::WRITE_TIMEOUT, self.orders.write_all(order.as_bytes())).await;
        matches!(written, Ok(Ok(())))
    }

    /// If no other watchdog can be started, the command continues, and each later order tries again:
    /// the command still has its parent-death signal, and this program supervises it.
    fn replace(&mut self) {
        if self.started.elapsed() < Self::RESTART_PAUSE {
            return;
        }
        self.started = Instant::now();
        // Killed before its pipe closes: the end of the pipe would make it kill the group.
        let _ = self.process.start_kill();
        // Passed as arguments: this program may be stopped before it writes to the pipe.
        let last_orders = [self.deadline.map(deadline_order), self.group.map(group_order)];
        let Ok((process, orders)) = spawn(&self.program, &last_orders) else { return };
        (self.process, self.orders, self.is_gone) = (process, orders, false);
    }

    /// Each stop is reported once.
    fn has_ended_or_stopped(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None)) || self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        let pid = self.process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        pid.is_some_and(|pid| {
            let status = waitid(WaitId::Pid(pid), options);
            status.is_ok_and(|status| status.is_some_and(|status| status.stopped()))
        })
    }
}

fn spawn(program: &PathBuf, last_orders: &[Option<String>]) -> io::Result<(Child, ChildStdin)> {
    let mut command = Command::new(program);
    // The watchdog inherits almost nothing from the job: no password in its environment, no open folder.
    // Without the name of this program: `pkill -9 -f syncguard` would end both, and with them all that ends the group.
    let name = format!("{COMMAND_NAME} of {}", std::process::id());
    command.arg0(name).arg(NAME).env_clear().current_dir("/").process_group(0);
    command.args(last_orders.iter().flatten().map(|order| order.trim_end()));
    // Standard error is for the one message that nobody else could give.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut process = command.spawn()?;
    let orders = process.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?;
    Ok((process, orders))
}

#[cfg(test)]
mod tests;
