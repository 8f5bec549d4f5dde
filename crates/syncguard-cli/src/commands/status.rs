//! `syncguard status`: who holds a lock.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use syncguard::diagnostics::get_by_key;
use syncguard::{Key, LockInfo};

use super::{listing, parts, recipe};
use crate::exit::{Failure, Status};
use crate::holder;
use crate::output::print_as;
use crate::part_key::Part;
use crate::store::Store;
use crate::time::{human, since, until, utc};

/// Shows who holds a lock, since when and for how long
///
/// The holder is shown by its label, such as a host name and a process id. A lock without a label,
/// such as that of the TypeScript library, shows the hash of its lock id. A permit of a semaphore, a
/// term of an election and a tick are shown with the name of their recipe, as far as key and note
/// tell. The held permits of a semaphore with this key are counted and shown too, and so are the gate
/// and the slots of readers and writers.
#[derive(Args)]
pub(crate) struct Options {
    /// The key of the lock
    key: String,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
    /// Ends with status 75 if the lock is held; permits, gate and slots do not count
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
    let parts = parts::held(&backend, &key).await?;
    print_as(
        options.json,
        || as_json(options, found.as_ref(), &parts),
        || as_text(options, found.as_ref()) + &parts_as_text(&parts),
    )?;
    let is_held = found.is_some();
    Ok(if is_held && options.exit_code { Status::CONFLICT } else { Status::SUCCESS })
}

fn as_json(options: &Options, found: Option<&LockInfo>, parts: &[(Part, LockInfo)]) -> Value {
    let mut shown = found.map_or_else(|| json!({}), |info| listing::as_json(info, options.reveal));
    // As the user spelled the key, before its normalisation.
    shown["key"] = json!(options.key);
    shown["held"] = json!(found.is_some());
    for (name, held) in [
        ("permitsHeld", count(parts, |part| matches!(part, Part::Permit(_)))),
        ("slotsHeld", count(parts, |part| matches!(part, Part::Slot(_)))),
    ] {
        if held > 0 {
            shown[name] = json!(held);
        }
    }
    if parts.iter().any(|(part, _)| *part == Part::Gate) {
        shown["gateHeld"] = json!(true);
    }
    shown
}

fn as_text(options: &Options, found: Option<&LockInfo>) -> String {
    let Some(info) = found else { return "free".to_owned() };
    let holder = holder::label(info).unwrap_or_else(|| info.lock_id.hash_id().to_string());
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

fn count(parts: &[(Part, LockInfo)], is_it: fn(Part) -> bool) -> usize {
    parts.iter().filter(|(part, _)| is_it(*part)).count()
}

/// The lines about the recipes with this key, if any of their parts is held.
fn parts_as_text(parts: &[(Part, LockInfo)]) -> String {
    let summary = parts::summary(parts);
    let mut text = summary.map_or_else(String::new, |summary| format!("\n{summary}"));
    for (part, info) in parts {
        let (age, holder) = (human(since(info.acquired_at)), holder::name(info));
        // Writing to a `String` never fails.
        let _ = write!(text, "\n{} held for {age}, by {holder}", part.name());
    }
    text
}
