//! `syncguard ls`: lists the held locks.

use std::time::Duration;

use clap::Args;

use super::listing::{self, Listing};
use super::recipe;
use crate::exit::{Failure, Status};
use crate::output::{Output, print, print_json};
use crate::store::Store;
use crate::time::{parse_duration, since};

/// Lists the locks that are held
///
/// A holder is shown by its label, or by the hash of its lock id. Permits of a semaphore, terms of
/// an election and ticks are shown with the name of their recipe. On Redis the listing scans all
/// keys of the database, in small steps.
#[derive(Args)]
pub(crate) struct Options {
    /// Lists only keys with this prefix, which may end with a * [default: all keys]
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Lists only locks that have been held for longer than this, and ends with status 75 if there
    /// are any
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    longer_than: Option<Duration>,
    /// Prints a line of JSON for each lock
    #[arg(long)]
    json: bool,
    /// Shows the lock ids too, each of which is enough to release its lock; only with --json
    #[arg(long, requires = "json")]
    reveal: bool,
}

pub(crate) async fn run(
    options: &Options,
    store: &Store,
    output: Output,
) -> Result<Status, Failure> {
    let prefix = listing::prefix(&options.prefix)?;
    let backend = store.connect().await?;
    let Listing { mut locks, corrupt } = listing::read(&backend, prefix).await?;
    if let Some(least) = options.longer_than {
        locks.retain(|info| since(info.acquired_at) > least);
    }
    if options.json {
        locks.iter().try_for_each(|info| print_json(&listing::as_json(info, options.reveal)))?;
    } else if locks.is_empty() {
        output.note(match (prefix, options.longer_than) {
            (_, Some(_)) => "no such lock has been held for that long",
            ("", None) => "no lock is held",
            (_, None) => "no lock whose key has this prefix is held",
        });
    } else {
        let has_recipes = locks.iter().any(|info| recipe::name(info).is_some());
        print(listing::as_table(&locks, if has_recipes { &[] } else { &["RECIPE"] }))?;
    }
    if let Some(message) = listing::corrupt_message(&corrupt) {
        output.error(message);
        return Ok(Status::INTERNAL);
    }
    let is_alert = options.longer_than.is_some() && !locks.is_empty();
    Ok(if is_alert { Status::CONFLICT } else { Status::SUCCESS })
}
