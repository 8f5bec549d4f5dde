//! `syncguard status`: who holds a lock.

use clap::Args;
use serde_json::{Value, json};
use syncguard::diagnostics::get_by_key;
use syncguard::{Key, LockInfo};

use crate::exit::{Failure, Status};
use crate::holder;
use crate::output::{print, print_json};
use crate::store::Store;
use crate::time::{human, since, until, utc};

/// Shows who holds a lock, since when and for how long
///
/// The holder is shown by its label, such as a host name and a process id. A lock without a label, such as
/// that of the TypeScript library, shows the hash of its lock id.
#[derive(Args)]
pub(crate) struct Options {
    /// The key of the lock
    key: String,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
    /// Ends with status 75 if the lock is held
    #[arg(long, short)]
    exit_code: bool,
    /// Shows the lock id too, which is enough to release the lock
    #[arg(long)]
    reveal: bool,
}

pub(crate) async fn run(options: &Options, store: &Store) -> Result<Status, Failure> {
    let key = Key::new(options.key.as_str())?;
    let backend = store.connect().await?;
    let found = get_by_key(&backend, key).await?;
    let printed = if options.json {
        print_json(&as_json(options, found.as_ref()))
    } else {
        print(as_text(options, found.as_ref()))
    };
    printed.map_err(Failure::output)?;
    let is_held = found.is_some();
    Ok(if is_held && options.exit_code { Status::CONFLICT } else { Status::SUCCESS })
}

fn as_json(options: &Options, found: Option<&LockInfo>) -> Value {
    let Some(info) = found else { return json!({ "key": options.key, "held": false }) };
    let mut shown = json!({
        "key": options.key,
        "held": true,
        "keyHash": info.key_hash().to_string(),
        "lockIdHash": info.lock_id_hash().to_string(),
        "fence": info.fence.to_string(),
        "acquiredAtMs": info.acquired_at.as_millis(),
        "expiresAtMs": info.expires_at.as_millis(),
    });
    holder::add_to_json(&mut shown, info);
    if options.reveal {
        shown["lockId"] = json!(lock_id(info));
    }
    shown
}

fn as_text(options: &Options, found: Option<&LockInfo>) -> String {
    let Some(info) = found else { return "free".to_owned() };
    let holder = holder::label(info).unwrap_or_else(|| info.lock_id_hash().to_string());
    let note = holder::note(info).map_or_else(String::new, |note| format!("\nnote      {note}"));
    let mut text = format!(
        "held for {}, by {holder}{note}\nfence     {}\nacquired  {}\nexpires   {} (in {}, unless it is renewed)",
        human(since(info.acquired_at)),
        info.fence,
        utc(info.acquired_at),
        utc(info.expires_at),
        human(until(info.expires_at)),
    );
    if options.reveal {
        text = format!("{text}\nlock id   {}", lock_id(info));
    }
    text
}

fn lock_id(info: &LockInfo) -> String {
    info.clone().expose().lock_id.expose().to_string()
}
