//! Signals that arrive at this process.

use std::fs;
use std::future::poll_fn;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit::Failure;

/// Receives the signals that this program handles.
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
    children: Stream,
}

/// The signals to forward to the command: all that programs send each other and that can be caught.
const FORWARDED: [Signal; 9] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::TSTP,
    Signal::CONT,
];

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let refused = |error| Failure::system("signals cannot be caught", &error);
        let ignored = ignored();
        let mut streams = Vec::new();
        // A signal that was ignored when this process started stays ignored, here and in the
        // command, as under nohup.
        for wanted in FORWARDED.into_iter().filter(|signal| !contains(ignored, *signal)) {
            let kind = SignalKind::from_raw(wanted.as_raw());
            streams.push((wanted, signal(kind).map_err(refused)?));
        }
        Ok(Self { streams, children: signal(SignalKind::child()).map_err(refused)? })
    }

    /// Waits for a signal that asks this process to end. For use while no command runs.
    pub(crate) async fn next_ending(&mut self) -> Signal {
        loop {
            match self.next().await {
                Event::Signal(signal) if asks_to_end(signal) => return signal,
                Event::Signal(_) => {}
                Event::Child => reap_orphans(&[]),
            }
        }
    }

    /// Waits for the next event.
    ///
    /// # Cancel safety
    ///
    /// Safe: no event is lost.
    pub(crate) async fn next(&mut self) -> Event {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(Event::Signal(*signal));
                }
            }
            if self.children.poll_recv(context).is_ready() {
                return Poll::Ready(Event::Child);
            }
            Poll::Pending
        })
        .await
    }
}

pub(crate) enum Event {
    Signal(Signal),
    /// A child has ended, stopped or continued.
    Child,
}

/// Returns whether the signal asks a process to end.
pub(crate) fn asks_to_end(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].contains(&signal)
}

/// Reaps the children that this process has not started: as process 1 of a container it gets the orphans of its commands.
/// Only the runtime may wait for this process's own children. One of them that has ended and that the runtime has not
/// waited for yet holds up the orphans until the next look.
#[cfg(target_os = "linux")]
pub(crate) fn reap_orphans(own: &[Option<u32>]) {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    let look = || waitid(Id::All, ended | WaitPidFlag::WNOWAIT).ok()?.pid();
    while let Some(pid) = look() {
        let is_own = own.contains(&u32::try_from(pid.as_raw()).ok());
        if is_own || waitid(Id::Pid(pid), ended).is_err() {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn reap_orphans(_: &[Option<u32>]) {}

/// The mask of the signals that were ignored when this process started; 0 if the system does not
/// tell.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn contains(mask: u64, signal: Signal) -> bool {
    mask >> (signal.as_raw() - 1) & 1 == 1
}
