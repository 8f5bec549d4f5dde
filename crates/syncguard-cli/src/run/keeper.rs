//! The process that kills the command's group when this program cannot, because it was killed, or
//! is stopped until its lock has expired.
//!
//! On Linux the command also has a parent-death signal. That signal does not reach the children of
//! the command, is cleared when the command executes a program with other privileges, and knows no
//! deadline.

mod life;

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

pub(crate) use self::life::main;
use crate::exit::Failure;

/// The first argument of the keeper process.
pub(crate) const NAME: &str = "__keeper";

/// The keeper of one command, as this program sees it. A keeper that is gone is replaced.
pub(super) struct Keeper {
    program: PathBuf,
    // Not killed with this handle: if this program dies, the keeper has to outlive it for a moment.
    process: Child,
    orders: ChildStdin,
    started: Instant,
    /// True if the keeper has died, was stopped, or does not read.
    is_gone: bool,
    /// The last orders, for a replacement.
    group: Option<Pid>,
    until: Option<Duration>,
}

impl Keeper {
    /// A keeper reads its orders at once. A keeper that does not read for this long counts as gone.
    const PATIENCE: Duration = Duration::from_millis(100);

    /// The shortest time between two starts, so that nothing spins if each keeper dies at once.
    const PAUSE: Duration = Duration::from_millis(100);

    pub(super) fn start() -> Result<Self, Failure> {
        let program = super::job::this_program()?;
        let started = spawn(&program, &[]);
        let (process, orders) =
            started.map_err(|error| Failure::system("a process cannot be started", &error))?;
        let started = Instant::now();
        Ok(Self { program, process, orders, started, is_gone: false, group: None, until: None })
    }

    /// The process id of the keeper, which the command needs for [`watch_me`].
    pub(super) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends the group to kill.
    pub(super) async fn watch(&mut self, group: Pid) {
        self.group = Some(group);
        self.tell(&watching(group)).await;
    }

    /// Allows the group to run for this long if no further order comes.
    pub(super) async fn allow(&mut self, time: Duration) {
        // The order is a deadline and no duration: the keeper may read it late.
        let until = now().saturating_add(time);
        self.until = Some(until);
        self.tell(&allowing(until)).await;
    }

    /// Replaces a keeper that has died or was stopped. Call this when a child of this process has
    /// changed.
    pub(super) fn mend(&mut self) {
        if self.has_changed() {
            self.is_gone = true;
            self.replace();
        }
    }

    /// Ends the keeper after the command has ended.
    pub(super) async fn dismiss(mut self) {
        if !self.is_gone && self.write("end\n").await {
            drop(self.orders);
            // The keeper ends at once after this order.
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
    async fn tell(&mut self, order: &str) {
        if self.is_gone || !self.write(order).await {
            self.is_gone = true;
            self.replace();
        }
    }

    /// Returns whether the keeper has the order.
    async fn write(&mut self, order: &str) -> bool {
        let written = timeout(Self::PATIENCE, self.orders.write_all(order.as_bytes())).await;
        matches!(written, Ok(Ok(())))
    }

    /// If no other keeper can be started, the command continues, and each later order tries again:
    /// the command still has its parent-death signal, and this program supervises it.
    fn replace(&mut self) {
        if self.started.elapsed() < Self::PAUSE {
            return;
        }
        self.started = Instant::now();
        // Killed before its pipe closes: the end of the pipe would make it kill the group.
        let _ = self.process.start_kill();
        // Passed as arguments: this program may be stopped before it writes to the pipe.
        let known = [self.until.map(allowing), self.group.map(watching)];
        let Ok((process, orders)) = spawn(&self.program, &known) else { return };
        (self.process, self.orders, self.is_gone) = (process, orders, false);
    }

    /// Each stop is reported once.
    fn has_changed(&mut self) -> bool {
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

fn spawn(program: &PathBuf, known: &[Option<String>]) -> io::Result<(Child, ChildStdin)> {
    let mut command = Command::new(program);
    // The keeper inherits nothing from the job: no password in its environment, no open folder or
    // pipe.
    command.arg0("syncguard").arg(NAME).env_clear().current_dir("/").process_group(0);
    command.args(known.iter().flatten().map(|order| order.trim_end()));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn()?;
    let orders = process.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?;
    Ok((process, orders))
}

/// Tells this keeper to kill the group of the calling process. Called before the command runs,
/// because `syncguard` may be stopped before it calls [`Keeper::watch`]. That call is for systems
/// without `/proc`, on which this one fails.
pub(super) fn watch_me(keeper: u32) {
    let orders = OpenOptions::new().write(true).open(format!("/proc/{keeper}/fd/0"));
    // A write this short is atomic: it does not mix with the orders of `syncguard`.
    let _ = orders.and_then(|mut orders| orders.write_all(watching(getpid()).as_bytes()));
}

fn watching(group: Pid) -> String {
    format!("group {}\n", group.as_raw_nonzero())
}

fn allowing(until: Duration) -> String {
    format!("until {}\n", until.as_millis())
}

/// The machine's clock since boot: the same in all processes, and nobody can set it.
fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
