//! `watch --json`: one line of JSON for each look-up.

use std::io;
use std::pin::pin;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};

use super::source::Source;
use crate::commands::listing::{self, Listing};
use crate::exit::{Failure, Status};
use crate::output::print_json;
use crate::signals::{Event, Signals, asks_to_end};

pub(super) async fn run(
    source: &Source<'_>,
    first: Listing,
    mut signals: Signals,
) -> Result<Status, Failure> {
    let mut seen = Ok(first);
    loop {
        let line = as_json(&seen);
        // In a thread of its own: a reader that stands still holds up no signal.
        let printed = tokio::task::spawn_blocking(move || print_json(&line));
        match unless_ended(printed, &mut signals).await {
            Ok(printed) => {
                printed.map_err(|error| Failure::output(io::Error::other(error)))??;
            }
            Err(status) => return Ok(status),
        }
        seen = match unless_ended(source.next(), &mut signals).await {
            Ok(seen) => seen,
            Err(status) => return Ok(status),
        };
    }
}

/// Waits for the future. A signal that asks this program to end gives its status instead.
async fn unless_ended<T>(
    future: impl Future<Output = T>,
    signals: &mut Signals,
) -> Result<T, Status> {
    let mut future = pin!(future);
    loop {
        tokio::select! {
            biased;
            event = signals.next() => match event {
                // Ctrl-C is the usual end of a watch, so it is a success.
                Event::Signal(Signal::INT) => return Err(Status::SUCCESS),
                Event::Signal(signal) if asks_to_end(signal) => {
                    return Err(Status::of_signal(signal.as_raw()));
                }
                Event::Signal(Signal::TSTP) => {
                    let _ = kill_process(getpid(), Signal::STOP);
                }
                Event::Signal(_) | Event::Child => {}
            },
            done = future.as_mut() => return Ok(done),
        }
    }
}

fn as_json(seen: &Result<Listing, Failure>) -> Value {
    match seen {
        Ok(listing) => json!({
            "locks": listing.locks.iter().map(|info| listing::as_json(info, false)).collect::<Vec<_>>(),
            "corrupt": listing.corrupt.len(),
        }),
        Err(failure) => json!({ "error": failure.to_string() }),
    }
}
