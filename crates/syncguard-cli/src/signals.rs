//! Signals that arrive at this process.

use std::fs;
use std::future::poll_fn;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit::Failure;

/// The signals that mean something here.
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
    children: Stream,
}

/// All that have a use between programs, and that can be caught.
const HANDED_ON: [Signal; 9] = [
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
        // One that was ignored when this process began stays ignored, here and in the command, as under nohup.
        for wanted in HANDED_ON.into_iter().filter(|signal| !is_in(ignored, *signal)) {
            let kind = SignalKind::from_raw(wanted.as_raw());
            streams.push((wanted, signal(kind).map_err(refused)?));
        }
        Ok(Self { streams, children: signal(SignalKind::child()).map_err(refused)? })
    }

    /// The next signal that asks this process to end, while there is no command that it could go on to.
    pub(crate) async fn ending(&mut self) -> Signal {
        loop {
            if let Event::Signal(signal) = self.event().await
                && ends(signal)
            {
                return signal;
            }
        }
    }

    /// The next thing that happened.
    ///
    /// # Cancel safety
    ///
    /// Safe: none is lost.
    pub(crate) async fn event(&mut self) -> Event {
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
    /// A child has ended, stopped or gone on.
    Child,
}

/// Whether the signal asks a process to end.
pub(crate) fn ends(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].contains(&signal)
}

/// The signals that whoever started this process has it ignore, where the system tells.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(mask: u64, signal: Signal) -> bool {
    mask >> (signal.as_raw() - 1) & 1 == 1
}
