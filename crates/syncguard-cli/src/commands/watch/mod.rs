//! `syncguard watch`: shows the held locks as they come and go.

mod screen;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;
use syncguard::DynBackend;
use tokio::time::{MissedTickBehavior, interval};

use self::screen::Screen;
use super::listing::{self, HEADER, Listing};
use crate::exit::{Failure, Status};
use crate::output::print_json;
use crate::signals::{Event, Signals, asks_to_end};
use crate::store::Store;
use crate::table::table;
use crate::time::{human, parse_duration};

/// Shows the locks that are held, again and again, until Ctrl-C
///
/// On Redis each refresh scans all keys of the database, in small steps.
#[derive(Args)]
pub(crate) struct Options {
    /// Shows only keys with this prefix [default: all keys]
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// The time between two refreshes
    #[arg(long, short = 'i', value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    interval: Duration,
    /// Prints a line of JSON for each refresh; needs no terminal
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: &Options, store: &Store) -> Result<Status, Failure> {
    if !options.json && !io::stdout().is_terminal() {
        return Err(Failure::usage("watch needs a terminal: use watch --json, or ls"));
    }
    if options.interval < Duration::from_millis(100) {
        return Err(Failure::usage("the interval is below 100ms; 100ms or more is allowed"));
    }
    let backend = store.connect().await?;
    // A bad prefix and a store that cannot list are reported before the screen is taken.
    let mut seen = Ok(listing::read(&backend, &options.prefix).await?);
    let mut signals = Signals::listen()?;
    let mut screen =
        if options.json { None } else { Some(Screen::enter().map_err(Failure::output)?) };
    let mut timer = interval(options.interval);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    timer.tick().await;
    loop {
        show(options, &seen, screen.as_mut()).map_err(Failure::output)?;
        tokio::select! {
            biased;
            event = signals.next() => match event {
                // Ctrl-C is the usual end of a watch, so it is a success.
                Event::Signal(Signal::INT) => return Ok(Status::SUCCESS),
                Event::Signal(signal) if asks_to_end(signal) => return Ok(Status::of_signal(signal.as_raw())),
                Event::Signal(Signal::TSTP) => suspend(&mut screen).map_err(Failure::output)?,
                // The terminal may have another size, so the screen is redrawn.
                Event::Signal(_) | Event::Child => {}
            },
            next = next_listing(&backend, options, &mut timer) => seen = next,
        }
    }
}

/// The next listing, after the interval.
async fn next_listing(
    backend: &DynBackend,
    options: &Options,
    timer: &mut tokio::time::Interval,
) -> Result<Listing, Failure> {
    timer.tick().await;
    listing::read(backend, &options.prefix).await
}

fn show(
    options: &Options,
    seen: &Result<Listing, Failure>,
    screen: Option<&mut Screen>,
) -> io::Result<()> {
    let Some(screen) = screen else { return print_json(&as_json(seen)) };
    let lines = match seen {
        Ok(listing) => {
            let count = match listing.locks.len() {
                1 => "1 lock".to_owned(),
                count => format!("{count} locks"),
            };
            let every = human(options.interval);
            let mut lines = vec![format!("{count}, refreshed every {every}; Ctrl-C ends")];
            lines.extend(listing::corrupt_message(&listing.corrupt));
            let rows = listing.locks.iter().map(listing::row);
            lines.extend(table(&HEADER, rows).lines().map(str::to_owned));
            lines
        }
        // The store may be back in a moment.
        Err(failure) => {
            vec![
                format!("the locks cannot be read: {failure}"),
                "the next refresh tries again; Ctrl-C ends".to_owned(),
            ]
        }
    };
    screen.draw(&lines)
}

fn as_json(seen: &Result<Listing, Failure>) -> serde_json::Value {
    match seen {
        Ok(listing) => json!({
            "locks": listing.locks.iter().map(listing::as_json).collect::<Vec<_>>(),
            "corrupt": listing.corrupt.len(),
        }),
        Err(failure) => json!({ "error": failure.to_string() }),
    }
}

/// Handles Ctrl-Z: gives the screen back, stops, and takes the screen again when the program
/// continues.
fn suspend(screen: &mut Option<Screen>) -> io::Result<()> {
    if screen.take().is_some() {
        let _ = kill_process(getpid(), Signal::STOP);
        *screen = Some(Screen::enter()?);
    }
    Ok(())
}
