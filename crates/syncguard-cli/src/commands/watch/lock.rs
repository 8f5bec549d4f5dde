//! A held lock, as the screen shows it.

use std::time::Duration;

use syncguard::contract::HashId;
use syncguard::{LockInfo, Timestamp};

use crate::commands::lock_key::key_for_terminal;
use crate::commands::recipe;
use crate::holder;
use crate::part_key::{self, Part};

/// A held lock. All texts are escaped for a terminal. Times are those since 1970.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lock {
    pub(super) id: HashId,
    pub(super) key: String,
    pub(super) holder: String,
    pub(super) recipe: Option<&'static str>,
    /// The note, unless it is only the name of the recipe.
    pub(super) note: Option<String>,
    pub(super) fence: u64,
    pub(super) acquired_at: Duration,
    pub(super) expires_at: Duration,
    /// The most time that was left in any look, so the TTL is at least this.
    pub(super) longest_left: Duration,
    /// Two thirds of the TTL had passed at the last look.
    pub(super) is_late: bool,
    /// How often the key is granted, if two looks saw a lock of it.
    pub(super) grants_per_second: Option<f64>,
}

impl Lock {
    /// A lock from the age at which its age is worth a colour.
    const OLD: Duration = Duration::from_secs(3600);

    pub(super) fn new(info: &LockInfo) -> Self {
        let time = |time: Timestamp| Duration::from_millis(time.as_millis());
        Self {
            id: info.lock_id.hash_id(),
            key: key_for_terminal(info),
            holder: holder::name(info),
            recipe: recipe::name(info),
            note: recipe::other_note(info),
            fence: info.fence.get(),
            acquired_at: time(info.acquired_at),
            expires_at: time(info.expires_at),
            longest_left: Duration::ZERO,
            is_late: false,
            grants_per_second: None,
        }
    }

    pub(super) fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.acquired_at)
    }

    pub(super) fn left(&self, now: Duration) -> Duration {
        self.expires_at.saturating_sub(now)
    }

    pub(super) fn is_old(&self, now: Duration) -> bool {
        self.age(now) > Self::OLD
    }

    /// The key of the recipe and the part, if it is the key of one.
    pub(super) fn recipe_and_part(&self) -> (&str, Option<Part>) {
        match part_key::split(&self.key) {
            Some((recipe, part)) => (recipe, Some(part)),
            None => (&self.key, None),
        }
    }

    /// The key as it is shown, and the text behind it. A part is shown under the key of its
    /// recipe, a term or a tick under its key.
    pub(super) fn key_and_part(&self) -> (&str, String) {
        match (self.recipe_and_part(), self.recipe.and_then(recipe::word)) {
            ((recipe, Some(part)), _) => (recipe, format!(" {}", part.name())),
            ((key, None), Some(word)) => (key, format!(" {word}")),
            ((key, None), None) => (key, String::new()),
        }
    }

    /// The key as it is shown, with the text behind it.
    pub(super) fn name(&self) -> String {
        let (key, part) = self.key_and_part();
        format!("{key}{part}")
    }

    /// Returns whether any text of the lock contains this one, which is in small letters.
    pub(super) fn contains(&self, text: &str) -> bool {
        let has = |shown: &str| shown.to_lowercase().contains(text);
        has(&self.key)
            || has(&self.name())
            || has(&self.holder)
            || self.note.as_deref().is_some_and(has)
    }
}

#[cfg(test)]
impl Lock {
    /// A lock of this id, held for an age and for a time to come. Times are seconds.
    pub(super) fn sample(id: &str, key: &str, holder: &str, now: u64, age: u64, left: u64) -> Self {
        Self {
            id: syncguard::Key::new(id).unwrap().hash_id(),
            key: key.to_owned(),
            holder: holder.to_owned(),
            recipe: None,
            note: None,
            fence: 1,
            acquired_at: Duration::from_secs(now - age),
            expires_at: Duration::from_secs(now + left),
            longest_left: Duration::ZERO,
            is_late: false,
            grants_per_second: None,
        }
    }
}
