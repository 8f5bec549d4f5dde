//! The key of a lock.

use std::fmt;
use std::sync::Arc;

use super::hash::{HashId, hash_key};

/// The name of a lock: 1 to 512 bytes of text in NFC.
///
/// A `Key` holds the normalised text, so two spellings of the same characters are one key. A clone is
/// cheap. `Debug` shows a hash, because keys carry user and payment ids; only
/// [`expose`](Self::expose) gives the text.
///
/// ```
/// use syncguard_core::Key;
///
/// let key = Key::new("cafe\u{301}")?;
/// assert_eq!(key.expose(), "caf\u{e9}");
/// assert_eq!(format!("{key:?}"), "Key(#850f7dc43910ff890f8879c0)");
///
/// // To print it on purpose, where people may read it:
/// assert_eq!(format!("the key is {}", key.expose()), "the key is caf\u{e9}");
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(super) Arc<str>);

impl Key {
    /// The longest key, in bytes of UTF-8 after normalisation. TypeScript: `MAX_KEY_LENGTH_BYTES`.
    pub const MAX_LENGTH_BYTES: usize = 512;

    /// The version of Unicode by which keys are normalised: major, minor, update.
    ///
    /// Two programs with different versions can normalise a key differently if it has characters that only
    /// one of the versions knows. The programs then lock two different keys.
    pub const UNICODE_VERSION: (u8, u8, u8) = unicode_normalization::UNICODE_VERSION;

    /// A longer text cannot normalise to a legal key, so it is refused unread.
    ///
    /// A character's canonical decomposition is at most 3 times shorter than the character, and a
    /// composed character at most 3 times shorter than its decomposition; a test checks all characters.
    pub(super) const MAX_RAW_BYTES: usize = 9 * Self::MAX_LENGTH_BYTES;

    /// The normalised text of the key. Keep it out of logs.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The hash that stands for this key in logs and telemetry.
    #[must_use]
    pub fn hash_id(&self) -> HashId {
        HashId::from(self)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.hash_id()).finish()
    }
}

impl From<&Key> for HashId {
    /// Never fails; the same as [`hash_key`] of the exposed key.
    fn from(key: &Key) -> Self {
        hash_key(key.expose())
    }
}

impl From<&Key> for Key {
    /// A cheap clone; never fails.
    fn from(key: &Key) -> Self {
        key.clone()
    }
}

#[cfg(test)]
mod tests {
    use unicode_normalization::UnicodeNormalization;

    use super::Key;

    #[test]
    fn no_character_shrinks_more_than_the_raw_limit_assumes() {
        for character in '\u{1}'..=char::MAX {
            let length = |text: String| text.len();
            let decomposed = length(std::iter::once(character).nfd().collect());
            assert!(character.len_utf8() <= 3 * decomposed, "{character:?} against its NFD");
            assert!(decomposed <= 3 * character.len_utf8(), "NFD of {character:?}");
        }
    }

    #[test]
    fn a_huge_text_is_refused_before_it_is_normalised() {
        let text = "\u{301}".repeat(8 << 20);
        let started = std::time::Instant::now();
        assert!(Key::new(&text).is_err());
        assert!(started.elapsed() < std::time::Duration::from_millis(50));
    }
}
