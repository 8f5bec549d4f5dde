//! The process that ends the command's group when this program cannot: because it was killed, or is stopped for
//! so long that its lock is over.
//!
//! On Linux the command itself has a parent-death signal. That does not reach the processes which the command
//! has started, is gone once the command executes a program with other rights, and knows no time.

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

/// The first argument of such a process.
pub(crate) const NAME: &str = "__keeper";

/// The keeper of one command, as this program sees it. One that is gone is replaced.
pub(super) struct Keeper {
    program: PathBuf,
    // Not killed with this handle: if this program dies, it is to live on for a moment.
    process: Child,
    orders: ChildStdin,
    started: Instant,
    /// Has died, was stopped, or does not read.
    is_gone: bool,
    /// To be told to a new one.
    group: Option<Pid>,
    until: Option<Duration>,
}

impl Keeper {
    /// A keeper reads its orders at once. One that does not in this time is as good as gone.
    const PATIENCE: Duration = Duration::from_millis(100);

    /// Between two of them, so that nothing spins where each one dies at once.
    const PAUSE: Duration = Duration::from_millis(100);

    pub(super) fn start() -> Result<Self, Failure> {
        let program = super::job::this_program()?;
        let started = spawn(&program, &[]);
        let (process, orders) =
            started.map_err(|error| Failure::system("a process cannot be started", &error))?;
        let started = Instant::now();
        Ok(Self { program, process, orders, started, is_gone: false, group: None, until: None })
    }

    /// Where the command itself can say which group it is: see [`watch_me`].
    pub(super) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// This is the group to end.
    pub(super) async fn watch(&mut self, group: Pid) {
        self.group = Some(group);
        self.tell(&watching(group)).await;
    }

    /// The group may run for this long if nothing more is heard.
    pub(super) async fn allow(&mut self, time: Duration) {
        // A point in time, not how long: the keeper may read it late.
        let until = now().saturating_add(time);
        self.until = Some(until);
        self.tell(&allowing(until)).await;
    }

    /// Replaces a keeper that has died or was stopped. To be called when a child of this process has changed.
    pub(super) fn mend(&mut self) {
        if self.has_changed() {
            self.is_gone = true;
            self.replace();
        }
    }

    /// The command has ended: there is nothing to keep any more.
    pub(super) async fn dismiss(mut self) {
        if !self.is_gone && self.write("end\n").await {
            drop(self.orders);
            // A keeper ends at once then.
            if timeout(Duration::from_secs(1), self.process.wait()).await.is_ok() {
                return;
            }
        }
        // Its group has ended, and the end of its orders would have it kill whoever has that number next.
        let _ = self.process.start_kill();
    }

    /// Never takes long: the loss of the lock, signals and the end of the command wait for it.
    async fn tell(&mut self, order: &str) {
        if self.is_gone || !self.write(order).await {
            self.is_gone = true;
            self.replace();
        }
    }

    /// Answers whether the keeper has got it.
    async fn write(&mut self, order: &str) -> bool {
        let written = timeout(Self::PATIENCE, self.orders.write_all(order.as_bytes())).await;
        matches!(written, Ok(Ok(())))
    }

    /// Where no other keeper can be started the command goes on, and each later order tries it again: the command
    /// still has its parent-death signal, and this program looks after it.
    fn replace(&mut self) {
        if self.started.elapsed() < Self::PAUSE {
            return;
        }
        self.started = Instant::now();
        // Killed before its pipe is closed, whose end would have it kill the group.
        let _ = self.process.start_kill();
        // Told with its start: this program may be stopped before it comes to write anything.
        let known = [self.until.map(allowing), self.group.map(watching)];
        let Ok((process, orders)) = spawn(&self.program, &known) else { return };
        (self.process, self.orders, self.is_gone) = (process, orders, false);
    }

    /// Each stop is seen once.
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
    // Nothing of the job's: no password in its environment, no folder or pipe kept open.
    command.arg0("syncguard").arg(NAME).env_clear().current_dir("/").process_group(0);
    command.args(known.iter().flatten().map(|order| order.trim_end()));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn()?;
    let orders = process.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?;
    Ok((process, orders))
}

/// Has this keeper end the group of this process. It is told before the command runs: the one who starts it can be
/// stopped before it comes to [`Keeper::watch`], which is for where this does not work.
pub(super) fn watch_me(keeper: u32) {
    let orders = OpenOptions::new().write(true).open(format!("/proc/{keeper}/fd/0"));
    // So few bytes are written at once, between the orders of others.
    let _ = orders.and_then(|mut orders| orders.write_all(watching(getpid()).as_bytes()));
}

fn watching(group: Pid) -> String {
    format!("group {}\n", group.as_raw_nonzero())
}

fn allowing(until: Duration) -> String {
    format!("until {}\n", until.as_millis())
}

/// The machine's clock, the same in all processes, which nobody can set.
fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
