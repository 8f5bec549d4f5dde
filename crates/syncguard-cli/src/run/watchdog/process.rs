//! The watchdog process.

use std::env::ArgsOs;
use std::fs;
use std::io::{BufRead as _, Write as _, stderr, stdin};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::process::{Pid, Signal, kill_process_group};

use super::protocol;
use crate::run::group::{Rest, RunsAsAnother, rest_of};

/// The name of the process in `ps`, of which the system shows 15 bytes.
pub(super) const COMMAND_NAME: &str = "lock-watchdog";

/// The longest wait between two checks of the clock: the deadline counts the sleep of the machine,
/// and the wait for an order does not.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How often, and at which distance, the watchdog looks whether all processes have ended.
const KILL_CHECKS: u32 = 100;
const KILL_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Runs `__watchdog [ORDER…]`, which reads more orders from standard input.
pub(crate) fn main(arguments: std::iter::Skip<ArgsOs>) -> ExitCode {
    // SIGTERM, SIGHUP and SIGINT are for the command, so the watchdog blocks them. Children would
    // inherit the mask, but the watchdog starts none.
    let _ = SigSet::all().thread_block();
    // Linux would name it `exe`, after the path that it was started by.
    let _ = fs::write("/proc/self/comm", COMMAND_NAME);
    let (order, orders) = channel();
    for argument in arguments.filter_map(|argument| argument.into_string().ok()) {
        let _ = order.send(argument);
    }
    thread::spawn(move || {
        for line in stdin().lock().lines() {
            let Ok(line) = line else { return };
            if order.send(line).is_err() {
                return;
            }
        }
    });
    if let Some(group) = group_to_kill(&orders, protocol::now) {
        kill(group);
    }
    ExitCode::SUCCESS
}

/// Kills the group, or says that it goes on.
fn kill(group: Pid) {
    // The group may have ended already. If this user may not signal it, that is seen below.
    let _ = kill_process_group(group, Signal::KILL);
    for _ in 0..KILL_CHECKS {
        match rest_of(group) {
            Rest::Nothing => return,
            Rest::Ours => thread::sleep(KILL_CHECK_INTERVAL),
            Rest::OfOthers => {
                // A failure here cannot be reported anywhere.
                let _ = writeln!(stderr(), "syncguard: the lock is over; {RunsAsAnother}");
                return;
            }
        }
    }
}

/// Returns the group to kill, or `None` if the watchdog was dismissed.
pub(super) fn group_to_kill(orders: &Receiver<String>, now: impl Fn() -> Duration) -> Option<Pid> {
    let mut group = None;
    let mut deadline: Option<Duration> = None;
    loop {
        let order = match deadline.filter(|_| group.is_some()) {
            None => orders.recv().map_err(RecvTimeoutError::from),
            Some(until) => {
                let left = until.saturating_sub(now());
                match orders.recv_timeout(left.min(CLOCK_CHECK_INTERVAL)) {
                    Err(RecvTimeoutError::Timeout) if now() < until => continue,
                    order => order,
                }
            }
        };
        let Ok(order) = order else { return group };
        let (verb, number) = order.split_once(' ').unwrap_or((&order, ""));
        match (verb, number.parse::<u64>()) {
            ("group", Ok(number)) => group = i32::try_from(number).ok().and_then(Pid::from_raw),
            ("until", Ok(millis)) => deadline = Some(Duration::from_millis(millis)),
            // "end", or an unknown order
            _ => return None,
        }
    }
}
