//! The numbers of keys that a session holds.

use std::collections::HashMap;

/// By key, and by number.
#[derive(Default)]
pub(super) struct Numbers {
    by_key: HashMap<String, i64>,
    keys: HashMap<i64, String>,
}

impl Numbers {
    pub(super) fn holds(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    pub(super) fn count(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn key_of(&self, number: i64) -> Option<&str> {
        self.keys.get(&number).map(String::as_str)
    }

    pub(super) fn insert(&mut self, key: String, number: i64) {
        self.keys.insert(number, key.clone());
        self.by_key.insert(key, number);
    }

    /// The number to let go of. Signals for another key of the same number go on.
    pub(super) fn remove(&mut self, key: &str) -> Option<i64> {
        let number = self.by_key.remove(key)?;
        if self.key_of(number) == Some(key) {
            self.keys.remove(&number);
        }
        Some(number)
    }
}
