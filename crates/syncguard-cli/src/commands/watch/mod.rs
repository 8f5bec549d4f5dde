//! `syncguard watch`: shows the held locks as they come and go.

mod json_lines;
#[cfg(feature = "terminal")]
mod keys;
#[cfg(feature = "terminal")]
mod layout;
#[cfg(feature = "terminal")]
mod lock;
#[cfg(feature = "terminal")]
mod screen;
mod source;
#[cfg(feature = "terminal")]
mod state;
#[cfg(feature = "terminal")]
mod terminal;
#[cfg(feature = "terminal")]
mod turnover;
#[cfg(feature = "terminal")]
mod view;

use std::time::Duration;

use clap::Args;

use self::source::Source;
use super::listing;
use crate::exit::{Failure, Status};
use crate::signals::Signals;
use crate::store::Store;
use crate::time::parse_duration;

/// Shows the locks that are held, again and again, until q or Ctrl-C
///
/// In the terminal, locks that were not renewed come first, and then those that are held longest. s
/// sorts by key, age, time left, holder or need again, / shows only the locks whose key,
/// holder or note contains a text, Esc shows all again, and the arrow keys and Page Up and Down
/// scroll. Ages of more than an hour are yellow. A lock is red, with a !, if it was not renewed
/// when two thirds of its TTL had passed.
///
/// On Redis each refresh scans all keys of the database, in small steps.
#[derive(Args)]
pub(crate) struct Options {
    /// Shows only keys with this prefix, which may end with a * [default: all keys]
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
    if !options.json {
        expect_screen()?;
    }
    if options.interval < Duration::from_millis(100) {
        return Err(Failure::usage("the interval is below 100ms; 100ms or more is allowed"));
    }
    let prefix = listing::prefix(&options.prefix)?;
    let source = Source::new(store, prefix, options.interval);
    // A bad prefix and a store that cannot list are reported before the screen is taken.
    let first = source.read().await?;
    let signals = Signals::listen()?;
    #[cfg(feature = "terminal")]
    if !options.json {
        return terminal::run(store, &source, first, signals).await;
    }
    json_lines::run(&source, first, signals).await
}

#[cfg(feature = "terminal")]
fn expect_screen() -> Result<(), Failure> {
    use std::io::{IsTerminal as _, stdout};

    if stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::usage("watch needs a terminal: use watch --json, or ls"))
}

/// Without the feature `terminal` there is no screen.
#[cfg(not(feature = "terminal"))]
fn expect_screen() -> Result<(), Failure> {
    Err(Failure::usage(
        "this syncguard was built without the feature `terminal`: use watch --json, or ls",
    ))
}
