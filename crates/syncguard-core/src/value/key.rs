//! What a lock is about.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::LockError;
use crate::contract::HashId;
use crate::value::nfc;

/// The name of what must not happen twice at once: 1 to 512 bytes of text in NFC.
///
/// A `Key` holds the normalised text, so two spellings of the same characters are one key. It is
/// cheap to clone. `Debug` shows a hash, because keys carry user and payment ids; the text comes
/// out through [`expose`](Self::expose) alone.
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
pub struct Key(Arc<str>);

impl Key {
    /// The longest key, in bytes of UTF-8 after normalisation. TypeScript: `MAX_KEY_LENGTH_BYTES`.
    pub const MAX_LENGTH_BYTES: usize = 512;

    /// The version of Unicode by which keys are normalised: major, minor, update.
    ///
    /// Programs with different versions can spell a key differently that has characters which only one of
    /// them knows. They then lock two different keys.
    pub const UNICODE_VERSION: (u8, u8, u8) = unicode_normalization::UNICODE_VERSION;

    /// No text longer than this can normalise to a legal key, so it is refused unread.
    ///
    /// A character's canonical decomposition is at most 3 times shorter than the character, and a
    /// composed character at most 3 times shorter than its decomposition; the tests go through all
    /// of them.
    const MAX_RAW_BYTES: usize = 9 * Self::MAX_LENGTH_BYTES;

    /// Normalises and checks a key. TypeScript: `normalizeAndValidateKey`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the text is empty, longer than 512 bytes in NFC, or contains NUL
    /// (which PostgreSQL cannot store). The work is bounded whatever the length of the input.
    pub fn new(text: impl AsRef<str>) -> Result<Self, LockError> {
        fn checked(text: &str) -> Result<Key, LockError> {
            if text.is_empty() {
                return Err(LockError::invalid_argument(
                    "key is empty; 1 to 512 bytes are allowed",
                ));
            }
            if text.len() > Key::MAX_RAW_BYTES {
                return Err(too_long(text.len()));
            }
            if text.contains('\0') {
                return Err(LockError::invalid_argument(
                    "key contains NUL; any other character is allowed",
                ));
            }
            let text = nfc(text);
            if text.len() > Key::MAX_LENGTH_BYTES {
                return Err(too_long(text.len()));
            }
            Ok(Key(Arc::from(text.as_ref())))
        }
        checked(text.as_ref())
    }

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

fn too_long(length: usize) -> LockError {
    LockError::invalid_argument(format!(
        "key is {length} bytes long; at most {} are allowed after NFC normalisation",
        Key::MAX_LENGTH_BYTES
    ))
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.hash_id()).finish()
    }
}

impl FromStr for Key {
    type Err = LockError;

    /// # Errors
    ///
    /// As [`Key::new`].
    fn from_str(text: &str) -> Result<Self, LockError> {
        Self::new(text)
    }
}

/// A [`Key`], or a text that becomes one: `&str`, `String`, and each type that [`TryFrom`] turns into a key.
///
/// It is not implemented by hand.
pub trait IntoKey {
    /// The key, or why the text is none.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` as [`Key::new`].
    fn into_key(self) -> Result<Key, LockError>;
}

impl<K> IntoKey for K
where
    K: TryInto<Key, Error: Into<LockError>>,
{
    fn into_key(self) -> Result<Key, LockError> {
        self.try_into().map_err(Into::into)
    }
}

impl TryFrom<&str> for Key {
    type Error = LockError;

    /// # Errors
    ///
    /// As [`Key::new`].
    fn try_from(text: &str) -> Result<Self, LockError> {
        Self::new(text)
    }
}

impl TryFrom<String> for Key {
    type Error = LockError;

    /// # Errors
    ///
    /// As [`Key::new`].
    fn try_from(text: String) -> Result<Self, LockError> {
        Self::new(text)
    }
}

impl TryFrom<&String> for Key {
    type Error = LockError;

    /// # Errors
    ///
    /// As [`Key::new`].
    fn try_from(text: &String) -> Result<Self, LockError> {
        Self::new(text)
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
