//! The holder of a lock, for people and for programs.

use serde_json::{Value, json};
use syncguard::LockInfo;
use syncguard::contract::{Holder, TIME_TOLERANCE};

use crate::escape::escape_for_terminal;
use crate::time::{human, since, until};

/// The label of the holder. A lock without one, such as that of another library's client, shows the
/// first 12 digits of the hash of its lock id, which tell holders apart.
pub(crate) fn name(info: &LockInfo) -> String {
    label(info).unwrap_or_else(|| format!("{:.12}", info.lock_id.hash_id().to_string()))
}

/// The label of the holder, if the lock has one.
pub(crate) fn label(info: &LockInfo) -> Option<String> {
    let label = info.holder.as_ref()?.label();
    (!label.is_empty()).then(|| escape_for_terminal(label))
}

/// The note of the holder, if the lock has one.
pub(crate) fn note(info: &LockInfo) -> Option<String> {
    info.holder.as_ref()?.note().map(escape_for_terminal)
}

/// For a waiter, in one line: the holder, its note, how long it has had the lock, and when the lock is free.
pub(crate) fn described(info: &LockInfo) -> String {
    let note = note(info).map_or_else(String::new, |note| format!(" ({note})"));
    let (had, free) =
        (human(since(info.acquired_at)), human(until(info.expires_at) + TIME_TOLERANCE));
    let name = name(info);
    format!("{name}{note}, who has had the lock for {had}; free in {free} unless it is renewed")
}

/// Adds the fields for people to the JSON of a lock, such as `holder` and `note`, if the lock has them.
pub(crate) fn add_to_json(json: &mut Value, info: &LockInfo) {
    let fields = info.holder.iter().flat_map(Holder::fields);
    for (name, text) in fields.filter(|(_, text)| !text.is_empty()) {
        json[name] = json!(text);
    }
}
