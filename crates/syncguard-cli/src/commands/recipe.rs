//! The recipe that a lock is part of.

use syncguard::LockInfo;

use super::lock_key::key_of;
use crate::holder;
use crate::part_key;

/// The recipes that are told by the note of their locks, with the word for one such lock.
const BY_NOTE: [(&str, Option<&str>); 4] =
    [("election", Some("term")), ("ticks", Some("tick")), ("lock_all", None), ("rw_lock", None)];

/// The name of the recipe that the lock seems to be part of. This is only a hint: it comes from the
/// form of the key and from the note, which any client can choose.
pub(super) fn name(info: &LockInfo) -> Option<&'static str> {
    if let Some((_, part)) = part_key::split(&key_of(info)) {
        return Some(part.recipe());
    }
    let note = info.holder.as_ref()?.note()?;
    BY_NOTE.iter().map(|(name, _)| *name).find(|name| *name == note)
}

/// The word for one lock of the recipe, if there is one. A part has its name instead.
#[cfg(feature = "terminal")]
pub(super) fn word(recipe: &str) -> Option<&'static str> {
    BY_NOTE.iter().find(|(name, _)| *name == recipe).and_then(|(_, word)| *word)
}

/// The note of the lock for a terminal, unless it is only the name of its recipe.
pub(super) fn other_note(info: &LockInfo) -> Option<String> {
    holder::note(info).filter(|note| name(info) != Some(note.as_str()))
}
