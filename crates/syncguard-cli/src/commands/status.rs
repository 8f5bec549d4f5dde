//! `syncguard status`: who holds a lock.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use syncguard::diagnostics::get_by_key;
use syncguard::{Key, LockInfo};

use super::{listing, permits, recipe};
use crate::exit::{Failure, Status};
use crate::holder;
use crate::output::print_as;
use crate::store::Store;
use crate::time::{human, since, until, utc};

/// Shows who holds a lock, since when and for how long
///
/// The holder is shown by its label, such as a host name and a process id. A lock without a label,
/// such as that of the TypeScript library, shows the hash of its lock id. A permit of a semaphore, a
/// term of an election and a tick are shown with the name of their recipe, as far as key and note
/// tell. The held permits of a semaphore with this key are counted and shown too.
#[derive(Args)]
pub(crate) struct Options {
    /// The key of the lock
    key: String,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
    /// Ends with status 75 if the lock is held; permits do not count
    #[arg(long, short)]
    exit_code: bool,
    /// Shows the lock id too, which is enough to release the lock
    #[arg(long)]
    reveal: bool,
}

pub(crate) async fn run(options: &Options, store: &Store) -> Result<Status, Failure> {
    let key = Key::new(options.key.as_str())?;
    let backend = store.connect().await?;
    let found = get_by_key(&backend, key.clone()).await?;
    let permits = permits::held_from(0, &backend, &key).await?;
    print_as(
        options.json,
        || as_json(options, found.as_ref(), permits.len()),
        || as_text(options, found.as_ref()) + &permits_as_text(&permits),
    )?;
    let is_held = found.is_some();
    Ok(if is_held && options.exit_code { Status::CONFLICT } else { Status::SUCCESS })
}

fn as_json(options: &Options, found: Option<&LockInfo>, permits: usize) -> Value {
    let mut shown = found.map_or_else(|| json!({}), |info| listing::as_json(info, options.reveal));
    // As the user spelled the key, before its normalisation.
    shown["key"] = json!(options.key);
    shown["held"] = json!(found.is_some());
    if permits > 0 {
        shown["permitsHeld"] = json!(permits);
    }
    shown
}

fn as_text(options: &Options, found: Option<&LockInfo>) -> String {
    let Some(info) = found else { return "free".to_owned() };
    let holder = holder::label(info).unwrap_or_else(|| info.lock_id_hash().to_string());
    let line = |name, value| format!("\n{name:<10}{value}");
    let recipe =
        recipe::name(info).map_or_else(String::new, |name| line("recipe", name.to_owned()));
    let note = recipe::other_note(info).map_or_else(String::new, |note| line("note", note));
    let mut text = format!(
        "held for {}, by {holder}{recipe}{note}\nfence     {}\nacquired  {}\nexpires   {} (in {}, unless it is renewed)",
        human(since(info.acquired_at)),
        info.fence,
        utc(info.acquired_at),
        utc(info.expires_at),
        human(until(info.expires_at)),
    );
    if options.reveal {
        text = format!("{text}\nlock id   {}", listing::lock_id_of(info));
    }
    text
}

/// The lines about the semaphore with this key, if any of its permits is held.
fn permits_as_text(permits: &[(u32, LockInfo)]) -> String {
    let mut text = match permits.len() {
        0 => return String::new(),
        1 => "\n1 permit of the semaphore with this key is held".to_owned(),
        count => format!("\n{count} permits of the semaphore with this key are held"),
    };
    for (permit, info) in permits {
        let (age, holder) = (human(since(info.acquired_at)), holder::name(info));
        // Writing to a `String` never fails.
        let _ = write!(text, "\npermit {permit} held for {age}, by {holder}");
    }
    text
}
