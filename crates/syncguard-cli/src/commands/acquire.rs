//! `syncguard acquire`: takes a lock that outlives this program.

use std::mem;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use syncguard::LockConfig;

use super::record_file::NewFile;
use super::saved_lock::SavedLock;
use crate::caller;
use crate::exit::{Failure, Status};
use crate::lock_options::{HolderOptions, WaitOptions};
use crate::output::{Output, print_json};
use crate::run::{Acquired, LockRequest, acquire, finish_releases, take_lock};
use crate::signals::Signals;
use crate::store::Store;
use crate::time::parse_duration;

/// Takes a lock and leaves it held, for a holder that is not one command
///
/// For agents, CI jobs of several steps, and shells. Nothing renews the lock: `syncguard extend`
/// does, before the TTL is over. `syncguard release --from FILE` gives it back. If one command does
/// all the work, `syncguard run` is safer: it renews the lock, and ends the command with it.
#[derive(Args)]
#[command(override_usage = "syncguard acquire [OPTIONS] <KEY> <--save <FILE>|--json>")]
#[command(mut_arg("holder", |holder| holder.help(HOLDER_HELP)))]
pub(crate) struct Options {
    /// The name of the lock: callers with the same key on the same store exclude each other
    key: String,
    /// How long the lock lives unless it is extended
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    ttl: Duration,
    #[command(flatten)]
    to: Destination,
    #[command(flatten)]
    waiting: WaitOptions,
    #[command(flatten)]
    holder: HolderOptions,
}

/// This program ends before the lock does, so its own process id would name no running process.
const HOLDER_HELP: &str = "Names the holder, for people [default: `SYNCGUARD_HOLDER`, or else user, host name and the id \
                           of the process that has called this program: `alice@build-7/412`]";

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Destination {
    /// Writes the lock to this new file, which only this user can read; `extend` and `release` take it
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Prints the lock as one line of JSON; it contains the lock id, which is enough to release the lock
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(
    options: &Options,
    store: Store,
    output: Output,
) -> Result<Status, Failure> {
    let config = LockConfig::new(options.key.as_str())
        .with_ttl(options.ttl)
        .with_acquisition(options.waiting.acquisition());
    config.check()?;
    let request = LockRequest::of_lock(config, options.waiting.conflict_status());
    let store = store.with_default_label(caller::label()).with_parameters(options.holder.given()?);
    let mut signals = Signals::listen()?;
    // Before the lock: a lock without a record could not be released. Dropping the file removes it.
    let file = options.to.save.as_deref().map(NewFile::create).transpose()?;
    let acquired = acquire(&store, &options.key, &request, &mut signals, output, take_lock).await?;
    let (backend, guard) = match acquired {
        Acquired::Held(backend, guard) => (backend, guard),
        Acquired::Ended(status) => return Ok(status),
    };
    let lock = SavedLock {
        store: Some(store.place()),
        key: options.key.clone(),
        lock_id: guard.lock_id(),
        fence: guard.fence().to_string(),
        expires_at: guard.expires_at(),
    };
    let recorded = match file {
        Some(file) => file.write(&lock.line()),
        None => print_json(&lock.as_json()),
    };
    match recorded {
        Ok(()) => {
            // Dropping the guard would release the lock, which now belongs to whoever has the
            // record. This process ends next, so nothing is leaked for long, and without
            // auto-extend no task renews the lock.
            mem::forget(guard);
            Ok(Status::SUCCESS)
        }
        Err(failure) => {
            let released = guard.release().await;
            finish_releases(&backend).await;
            let end = match released {
                Ok(_) => "the lock was released again",
                Err(_) => "the lock could not be released either, and ends by its TTL",
            };
            Err(Failure::new(failure.status(), format!("{failure}; {end}")))
        }
    }
}
