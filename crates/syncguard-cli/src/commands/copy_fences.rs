//! `syncguard copy-fences`: to another store, without fences starting anew.

use clap::Args;
use serde_json::json;
use syncguard::DynBackend;
use syncguard::inventory::ListRequest;

use super::listing;
use crate::exit::{Failure, Status};
use crate::output::{Output, print, print_json};
use crate::store::{Store, warn_of_password};

/// Raises all fence counters of a store to those of another one
///
/// For moving: stop whatever takes locks on the old store, copy, then let it go on with the new one. Every fence
/// of the new store is above every one of the old then. It can be run again, also after it was interrupted:
/// counters are raised and never lowered.
#[derive(Args)]
pub(crate) struct Options {
    /// The old store; nothing is changed there [default: `SYNCGUARD_FROM`]
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// The new store [default: `SYNCGUARD_TO`]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Copies although locks are held on the old store: their keys may get fences there that come too late
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
    let (from, to) = (from.connect().await?, to.connect().await?);
    if !options.while_held {
        expect_quiet(&from).await?;
    }
    let (counters, corrupt) = copy(&from, &to).await?;
    if !options.while_held {
        // Whoever came meanwhile has a fence that was perhaps not copied.
        expect_quiet(&from).await?;
    }
    let printed = if options.json {
        print_json(&json!({ "counters": counters, "corrupt": corrupt }))
    } else {
        print(format!("fence counters that are at least as high as on the old store: {counters}"))
    };
    printed.map_err(|error| Failure::system("the output cannot be written", &error))?;
    if corrupt > 0 {
        output.error(format!("counters that make no sense and were not copied: {corrupt}"));
        return Ok(Status::INTERNAL);
    }
    Ok(Status::SUCCESS)
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

async fn expect_quiet(from: &DynBackend) -> Result<(), Failure> {
    let held = listing::read(from, "").await?.locks.len();
    if held == 0 {
        return Ok(());
    }
    let message = format!(
        "locks are held on the old store ({held}): stop whatever takes them and run this again (--while-held copies \
         all the same)"
    );
    Err(Failure::new(Status::CONFLICT, message))
}

/// Answers how many were copied, and how many make no sense.
async fn copy(from: &DynBackend, to: &DynBackend) -> Result<(u64, usize), Failure> {
    let (from, to) = (listing::inventory(from)?, listing::inventory(to)?);
    let mut next = Some(ListRequest::new().with_page_size(ListRequest::MAX_PAGE_SIZE));
    let (mut copied, mut corrupt) = (0, 0);
    while let Some(request) = next {
        let page = from.list_counters(request).await?;
        for counter in page.entries {
            // One at zero is as good as none.
            if counter.last.get() > 0 {
                let _ = to.raise_counter(counter.key, counter.last).await?;
                copied += 1;
            }
        }
        corrupt += page.corrupt.len();
        next = page.next;
    }
    Ok((copied, corrupt))
}
