//! `syncguard fence`: shows or raises the counter of a key.

use clap::{Args, Subcommand};
use serde_json::json;
use syncguard::{Fence, Key};

use super::listing;
use crate::exit::{Failure, Status};
use crate::output::{print, print_json};
use crate::store::Store;

/// Shows or raises the fence counter of a key
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
        Command::Raise(raise) => {
            let key = Key::new(raise.key.as_str())?;
            let inventory = listing::inventory(&store.connect().await?)?;
            (&raise.key, raise.json, Some(inventory.raise_counter(key, raise.at_least).await?))
        }
    };
    let printed = match fence {
        _ if json => {
            let fence = fence.map(|fence| fence.to_string());
            print_json(&json!({ "key": key, "fence": fence }))
        }
        Some(fence) => print(fence),
        None => print("none: the key was never locked"),
    };
    printed.map_err(Failure::output)?;
    Ok(Status::SUCCESS)
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
