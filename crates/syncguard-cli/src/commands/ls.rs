//! `syncguard ls`: lists the held locks.

use clap::Args;
use serde_json::json;
use syncguard::LockInfo;

use super::listing::{self, HEADER, Listing};
use crate::exit::{Failure, Status};
use crate::output::{Output, print, print_json};
use crate::store::Store;
use crate::table::table;

/// Lists the locks that are held
///
/// Holders are shown as the hash of their lock id. On Redis the listing scans all keys of the
/// database, in small steps.
#[derive(Args)]
pub(crate) struct Options {
    /// Lists only keys with this prefix [default: all keys]
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
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
    let backend = store.connect().await?;
    let Listing { locks, corrupt } = listing::read(&backend, &options.prefix).await?;
    let printed = if options.json {
        locks.iter().try_for_each(|info| print_json(&as_json(options, info)))
    } else if locks.is_empty() {
        output.note(if options.prefix.is_empty() {
            "no lock is held"
        } else {
            "no lock whose key has this prefix is held"
        });
        Ok(())
    } else {
        print(table(&HEADER, locks.iter().map(listing::row)))
    };
    printed.map_err(Failure::output)?;
    if let Some(message) = listing::corrupt_message(&corrupt) {
        output.error(message);
        return Ok(Status::INTERNAL);
    }
    Ok(Status::SUCCESS)
}

fn as_json(options: &Options, info: &LockInfo) -> serde_json::Value {
    let mut shown = listing::as_json(info);
    if options.reveal {
        shown["lockId"] = json!(info.clone().expose().lock_id.expose());
    }
    shown
}
