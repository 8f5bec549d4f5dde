//! `syncguard fence`: shows or raises the counter of a key.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::json;
use syncguard::{Fence, Key};

use super::listing;
use crate::escape::escape_for_terminal;
use crate::exit::{Failure, Status};
use crate::output::{print, print_as};
use crate::store::Store;

/// Shows or raises the fence counter of a key, or finds the key of a hash
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows the last fence of a key, held or not
    Show(Show),
    /// Raises the counter of a key, for example after a restored backup; never lowers it
    Raise(Raise),
    /// Finds the key whose hash is in a log, an error or a metric: a key that was ever locked
    ///
    /// The command reads all counters, on Redis in small steps.
    Find(Find),
}

#[derive(Args)]
struct Find {
    /// The hash, or at least its first 8 digits; status 82 if no key has it
    #[arg(value_parser = parse_hash)]
    hash: String,
    /// Prints a line of JSON for each key
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Show {
    /// The key of the lock
    key: String,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Raise {
    /// The key of the lock
    key: String,
    /// The least value afterwards, such as the highest fence that was seen anywhere
    #[arg(value_parser = parse_fence)]
    at_least: Fence,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

impl Options {
    /// True if the counter is raised.
    pub(crate) fn raises(&self) -> bool {
        matches!(self.command, Command::Raise(_))
    }
}

pub(crate) async fn run(options: &Options, store: &Store) -> Result<Status, Failure> {
    let (key, json, fence) = match &options.command {
        Command::Show(show) => {
            let key = Key::new(show.key.as_str())?;
            let inventory = listing::inventory(&store.connect().await?)?;
            (&show.key, show.json, inventory.fence_counter(key).await?)
        }
        Command::Find(find) => return self::find(find, store).await,
        Command::Raise(raise) => {
            let key = Key::new(raise.key.as_str())?;
            let inventory = listing::inventory(&store.connect().await?)?;
            (&raise.key, raise.json, Some(inventory.raise_counter(key, raise.at_least).await?))
        }
    };
    let fence = fence.map(|fence| fence.to_string());
    print_as(
        json,
        || json!({ "key": key, "fence": fence }),
        || fence.clone().unwrap_or_else(|| "none: the key was never locked".to_owned()),
    )?;
    Ok(Status::SUCCESS)
}

/// Two keys whose hashes begin alike are both printed.
async fn find(options: &Find, store: &Store) -> Result<Status, Failure> {
    let mut found = BTreeMap::new();
    let corrupt = listing::counters(&store.connect().await?, |counter| {
        let hash = counter.key.hash_id().to_string();
        if hash.starts_with(&options.hash) {
            found.insert(counter.key.expose().to_owned(), (hash, counter.last));
        }
    })
    .await?;
    for (key, (hash, fence)) in &found {
        let json = || json!({ "key": key, "keyHash": hash, "fence": fence.to_string() });
        print_as(options.json, json, || escape_for_terminal(key))?;
    }
    if !found.is_empty() {
        return Ok(Status::SUCCESS);
    }
    if !corrupt.is_empty() {
        let message =
            "no counter that can be read has a key with this hash, and some cannot be read";
        return Err(Failure::new(Status::INTERNAL, message));
    }
    if !options.json {
        print("none: no key with this hash was ever locked")?;
    }
    Ok(Status::NONE_FOUND)
}

/// Parses a hash as the log, `Debug` and `sha256sum` write it.
fn parse_hash(text: &str) -> Result<String, String> {
    const DIGITS: usize = 24;
    const ALL_DIGITS: usize = 64;
    let text = text.trim().trim_start_matches("Key(").trim_start_matches('#');
    let mut text = text.trim_end_matches(')').trim_end_matches(['…', '.']).to_ascii_lowercase();
    let is_long = (8..=DIGITS).contains(&text.len()) || text.len() == ALL_DIGITS;
    if !is_long || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let says = "a hash has 24 digits of 0-9 and a-f, of which 8 are enough; the 64 of sha256sum are allowed";
        return Err(says.to_owned());
    }
    text.truncate(DIGITS);
    Ok(text)
}

/// Parses a fence with or without leading zeros.
fn parse_fence(text: &str) -> Result<Fence, String> {
    let number = text.parse::<u64>().map_err(|_| "a fence is a number of at most 15 digits")?;
    let fence = Fence::new(number).map_err(|error| error.message().to_owned())?;
    if fence > Fence::MAX {
        return Err(format!("no counter passes {}", Fence::MAX));
    }
    Ok(fence)
}
