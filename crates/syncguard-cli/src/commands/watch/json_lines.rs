//! `watch --json`: a line for each look.

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};

use super::source::Source;
use crate::commands::listing::{self, Listing};
use crate::exit::{Failure, Status};
use crate::output::print_json;
use crate::signals::{Event, Signals, asks_to_end};

pub(super) async fn run(
    source: &Source,
    first: Listing,
    mut signals: Signals,
) -> Result<Status, Failure> {
    let mut seen = Ok(first);
    loop {
        print_json(&as_json(&seen)).map_err(Failure::output)?;
        let mut next = Box::pin(source.next());
        seen = loop {
            tokio::select! {
                biased;
                event = signals.next() => match event {
                    // Ctrl-C is the usual end of a watch, so it is a success.
                    Event::Signal(Signal::INT) => return Ok(Status::SUCCESS),
                    Event::Signal(signal) if asks_to_end(signal) => {
                        return Ok(Status::of_signal(signal.as_raw()));
                    }
                    Event::Signal(Signal::TSTP) => {
                        let _ = kill_process(getpid(), Signal::STOP);
                    }
                    Event::Signal(_) | Event::Child => {}
                },
                look = &mut next => break look,
            }
        };
    }
}

fn as_json(seen: &Result<Listing, Failure>) -> Value {
    match seen {
        Ok(listing) => json!({
            "locks": listing.locks.iter().map(listing::as_json).collect::<Vec<_>>(),
            "corrupt": listing.corrupt.len(),
        }),
        Err(failure) => json!({ "error": failure.to_string() }),
    }
}
