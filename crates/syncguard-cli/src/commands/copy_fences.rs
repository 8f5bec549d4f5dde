//! `syncguard copy-fences`: moves to another store without restarting the fences.

use clap::Args;
use serde_json::json;
use syncguard::contract::HashId;
use syncguard::inventory::ListRequest;
use syncguard::{DynBackend, Fence};

use super::listing::{self, Listing};
use crate::exit::{Failure, Status};
use crate::output::{Output, print_as};
use crate::store::{Store, warn_of_password};

/// Raises all fence counters of a store to those of another one
///
/// To move to another store: stop the programs that take locks on the old store, copy, then start
/// them on the new store. Every new fence of a key is then above all of its old fences. The copy
/// can be repeated, also after an interruption: counters are raised and never lowered.
#[derive(Args)]
pub(crate) struct Options {
    /// The old store, which is not changed [default: `SYNCGUARD_FROM`]
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// The new store [default: `SYNCGUARD_TO`]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Copies even while locks are held on the old store, which may then grant fences that the copy
    /// misses
    #[arg(long)]
    while_held: bool,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: &Options, output: Output) -> Result<Status, Failure> {
    let from = store(options.from.as_deref(), "--from", "SYNCGUARD_FROM", output)?;
    let to = store(options.to.as_deref(), "--to", "SYNCGUARD_TO", output)?;
    if from.expose() == to.expose() {
        return Err(Failure::usage("--from and --to are the same store"));
    }
    if from.missing_file().is_some() {
        return Err(Failure::usage("the file of the old store does not exist"));
    }
    to.tell_new_file(output);
    let (from, to) = (from.connect().await?, to.connect().await?);
    if !options.while_held {
        expect_no_locks(&from).await?;
    }
    let (counters, corrupt) = copy(&from, &to).await?;
    let locks = if options.while_held {
        Vec::new()
    } else {
        // A lock acquired meanwhile has a fence that may not have been copied.
        expect_no_locks(&from).await?
    };
    print_as(
        options.json,
        || json!({ "counters": counters, "corrupt": corrupt.len() }),
        || format!("fence counters that are at least as high as on the old store: {counters}"),
    )?;
    let mut status = Status::SUCCESS;
    for (what, corrupt) in [
        ("locks on the old store that cannot be read, and may be held", locks),
        ("counters on the old store that cannot be read, and were not copied", corrupt),
    ] {
        if let Some(first) = corrupt.first() {
            output.error(format!("{what}: {}, the first with the hash {first}", corrupt.len()));
            status = Status::INTERNAL;
        }
    }
    Ok(status)
}

fn store(
    url: Option<&str>,
    option: &str,
    variable: &str,
    output: Output,
) -> Result<Store, Failure> {
    if let Some(url) = url {
        warn_of_password(url, option, variable, output);
        return Store::new(url);
    }
    match std::env::var(variable) {
        Ok(url) if !url.is_empty() => Store::new(&url),
        _ => Err(Failure::usage(format!("{option} URL is missing, and {variable} is not set"))),
    }
}

/// Returns the hashes of corrupt locks.
async fn expect_no_locks(from: &DynBackend) -> Result<Vec<HashId>, Failure> {
    let Listing { locks, corrupt } = listing::read(from, "").await?;
    if locks.is_empty() {
        return Ok(corrupt);
    }
    let message = format!(
        "locks are held on the old store ({}): stop the programs that take them and run this again (--while-held \
         copies all the same)",
        locks.len()
    );
    Err(Failure::new(Status::CONFLICT, message))
}

/// Returns the number of counters that were copied, and the hashes of corrupt ones.
async fn copy(from: &DynBackend, to: &DynBackend) -> Result<(u64, Vec<HashId>), Failure> {
    let (from, to) = (listing::inventory(from)?, listing::inventory(to)?);
    let mut next = Some(ListRequest::new().with_page_size(ListRequest::MAX_PAGE_SIZE));
    let (mut copied, mut corrupt) = (0, Vec::new());
    while let Some(request) = next {
        let page = from.list_counters(request).await?;
        for counter in page.entries {
            // A counter at zero is the same as no counter.
            if counter.last.get() > 0 {
                // A counter beyond the end grants as little as one at the end.
                let _ = to.raise_counter(counter.key, counter.last.min(Fence::MAX)).await?;
                copied += 1;
            }
        }
        corrupt.extend(page.corrupt);
        next = page.next;
    }
    Ok((copied, corrupt))
}
