//! `syncguard extend`: lets a lock of `syncguard acquire` live longer.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use syncguard::contract::ExtendRequest;
use syncguard::{ExtendResult, Key, LockBackend as _};

use super::record_file::{is_stdin, shown};
use super::saved_lock::SavedLock;
use crate::exit::{Failure, Status};
use crate::output::print_json;
use crate::store::Store;
use crate::time::parse_duration;

/// Lets a lock of `acquire` live for another TTL from now on
///
/// Ends with status 76 if the lock is no longer held: its holder must stop its work then.
#[derive(Args)]
pub(crate) struct Options {
    /// The file of `acquire --save`, which gets the new expiry; `-` reads standard input and prints
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// How long the lock lives from now on; this replaces the time that is left
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    ttl: Duration,
    /// Prints the lock with its new expiry as one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: &Options, store: &Store) -> Result<Status, Failure> {
    let mut lock = SavedLock::read(&options.from, store)?;
    // By its id alone, whatever its expiry is: an earlier extend may not have reached the file.
    let request =
        ExtendRequest::new(lock.lock_id, options.ttl)?.with_key_hint(Key::new(lock.key.as_str())?);
    let backend = store.connect().await?;
    let ExtendResult::Extended { expires_at } = backend.extend(request).await? else {
        return Err(Failure::new(
            Status::LOST,
            "this store does not hold the lock any more: it has expired, was released, or was taken away. Another \
             process may have it",
        ));
    };
    lock.expires_at = expires_at;
    if !is_stdin(&options.from) {
        lock.replace(&options.from).map_err(|error| {
            let what =
                format!("the lock was extended, but {} cannot be rewritten", shown(&options.from));
            Failure::system(&what, &error)
        })?;
    }
    if options.json || is_stdin(&options.from) {
        print_json(&lock.as_json())?;
    }
    Ok(Status::SUCCESS)
}
