//! The process that ends the command's group when this program cannot: because it was killed, or is stopped for
//! so long that its lock is over.
//!
//! On Linux the command itself has a parent-death signal. That does not reach the processes which the command
//! has started, is gone once the command executes a program with other rights, and knows no time.

use std::fs::OpenOptions;
use std::io::{BufRead as _, Write as _, stdin};
use std::process::{ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process_group};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};

use crate::exit::Failure;

/// The first argument of such a process.
pub(crate) const NAME: &str = "__keeper";

/// The keeper of one command, as this program sees it.
pub(super) struct Keeper {
    // Not killed with this handle: if this program dies, it is to live on for a moment.
    process: Child,
    orders: ChildStdin,
}

impl Keeper {
    pub(super) fn start() -> Result<Self, Failure> {
        let mut command = Command::new(super::job::this_program()?);
        // Nothing of the job's: no password in its environment, no folder or pipe kept open.
        command.arg0("syncguard").arg(NAME).env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let refused = |error| Failure::system("a process cannot be started", &error);
        let mut process = command.spawn().map_err(refused)?;
        let orders = process.stdin.take().ok_or_else(|| {
            Failure::system("a process cannot be started", &std::io::Error::other("no pipe"))
        })?;
        Ok(Self { process, orders })
    }

    /// Where the command itself can say which group it is: see [`watch_me`].
    pub(super) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// This is the group to end.
    pub(super) async fn watch(&mut self, group: Pid) {
        self.tell(watching(group)).await;
    }

    /// The group may run for this long if nothing more is heard.
    pub(super) async fn allow(&mut self, time: Duration) {
        // A point in time, not how long: the keeper may read it late.
        self.tell(format!("until {}\n", (now() + time).as_millis())).await;
    }

    /// The command has ended: there is nothing to keep any more.
    pub(super) async fn dismiss(mut self) {
        self.tell("end\n".to_owned()).await;
        drop(self.orders);
        // It ends at once. If it does not, it is not worth waiting for.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.process.wait()).await;
    }

    async fn tell(&mut self, order: String) {
        // Somebody may have killed the keeper: the parent-death signal is still there.
        let _ = self.orders.write_all(order.as_bytes()).await;
    }
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

/// The machine's clock, the same in all processes, which nobody can set.
fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

/// The keeper's own life.
pub(crate) fn main() -> ExitCode {
    let (order, orders) = channel();
    thread::spawn(move || {
        for line in stdin().lock().lines() {
            let Ok(line) = line else { return };
            if order.send(line).is_err() {
                return;
            }
        }
    });
    if let Some(group) = keep(&orders) {
        // Nobody is left to tell if there is none any more.
        let _ = kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}

/// Answers the group that is to be ended.
fn keep(orders: &Receiver<String>) -> Option<Pid> {
    let mut group = None;
    let mut allowed: Option<Duration> = None;
    loop {
        let order = match allowed.filter(|_| group.is_some()) {
            None => orders.recv().map_err(RecvTimeoutError::from),
            Some(until) => orders.recv_timeout(until.saturating_sub(now())),
        };
        let Ok(order) = order else { return group };
        let (verb, number) = order.split_once(' ').unwrap_or((&order, ""));
        match (verb, number.parse::<u64>()) {
            ("group", Ok(number)) => group = i32::try_from(number).ok().and_then(Pid::from_raw),
            ("until", Ok(millis)) => allowed = Some(Duration::from_millis(millis)),
            // "end"
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(said: &[&str]) -> Option<i32> {
        let (order, orders) = channel();
        for line in said {
            order.send((*line).to_owned()).unwrap();
        }
        if !said.contains(&"until 1") {
            drop(order);
            return keep(&orders).map(|group| group.as_raw_nonzero().get());
        }
        // The one who gives orders is there, and silent.
        let group = keep(&orders).map(|group| group.as_raw_nonzero().get());
        drop(order);
        group
    }

    #[test]
    fn a_group_is_ended_when_its_holder_is_gone_or_silent_for_too_long() {
        assert_eq!(kept(&["group 7"]), Some(7), "gone");
        assert_eq!(kept(&["group 7", "until 1"]), Some(7), "silent");
        assert_eq!(kept(&["until 1", "group 7"]), Some(7), "silent before there was a group");
        assert_eq!(kept(&["until 1", "group 7", "end"]), None, "dismissed in time");
        let later = format!("until {}", (now() + Duration::from_secs(9)).as_millis());
        assert_eq!(kept(&["group 7", &later, "end"]), None, "dismissed");
        assert_eq!(kept(&[]), None, "there is no group yet");
    }
}
