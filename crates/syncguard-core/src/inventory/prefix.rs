//! The prefix of the keys of a listing.

use std::fmt;
use std::sync::Arc;

use crate::value::{Key, LockError, hash_key};

/// The prefix of the keys of a listing: 0 to 512 bytes of text in NFC. Every key begins with the empty prefix.
///
/// `Debug` shows a hash, as for a [`Key`]; only [`expose`](Self::expose) gives the text.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct KeyPrefix(Arc<str>);

impl KeyPrefix {
    /// Normalises and checks a prefix.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the text is longer than 512 bytes in NFC or contains NUL: no key begins with such a text.
    pub(super) fn new(text: impl AsRef<str>) -> Result<Self, LockError> {
        fn checked(text: &str) -> Result<KeyPrefix, LockError> {
            if text.is_empty() {
                return Ok(KeyPrefix::default());
            }
            // A text that cannot be a key cannot be the beginning of a key.
            Key::new(text).map(|key| KeyPrefix(Arc::from(key.expose()))).map_err(|refused| {
                LockError::invalid_argument(format!(
                    "prefix of keys: {}; an empty one stands for all keys",
                    refused.message()
                ))
            })
        }
        checked(text.as_ref())
    }

    /// The normalised text. Keep it out of logs.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// The first text, in the order of the bytes, after all texts with this prefix. If there is none, a text that is
    /// after every key.
    pub(super) fn end(&self) -> String {
        // UTF-8 has the order of the characters, and a range of `char` skips the surrogates.
        let mut text = self.expose().to_owned();
        while let Some(last) = text.pop() {
            if let Some(next) = (last..=char::MAX).nth(1) {
                text.push(next);
                return text;
            }
        }
        after_every_key()
    }

    /// A prefix that no key has.
    pub(super) fn of_no_key() -> Self {
        Self(after_every_key().into())
    }
}

/// The last character, repeated more often than fits in a key.
fn after_every_key() -> String {
    char::MAX.to_string().repeat(Key::MAX_LENGTH_BYTES / char::MAX.len_utf8() + 1)
}

impl fmt::Debug for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.expose().is_empty() {
            return f.write_str("KeyPrefix(all)");
        }
        f.debug_tuple("KeyPrefix").field(&hash_key(self.expose())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, KeyPrefix};

    #[test]
    fn the_end_lies_behind_all_that_begin_so_and_before_all_others() {
        let max = char::MAX;
        let last_key = max.to_string().repeat(128);
        for (prefix, end) in [
            ("a", Some("b")),
            ("a\u{d7ff}", Some("a\u{e000}")),
            ("\u{7f}", Some("\u{80}")),
            (&format!("a{max}{max}"), Some("b")),
            (&max.to_string(), None),
            (&last_key, None),
            ("", None),
        ] {
            let prefix = KeyPrefix::new(prefix).unwrap();
            assert!(end.is_none_or(|end| end == prefix.end()));
            let room = (Key::MAX_LENGTH_BYTES - prefix.expose().len()) / max.len_utf8();
            let inside = Key::new(format!("{}{}", prefix.expose(), max.to_string().repeat(room)));
            assert!(inside.unwrap().expose() < prefix.end().as_str());
            assert!(prefix.expose() < prefix.end().as_str());
        }
    }

    #[test]
    fn what_no_key_begins_with_is_refused_without_showing_it() {
        for bad in ["secret\0", &"secret".repeat(100)] {
            let error = KeyPrefix::new(bad).unwrap_err();
            assert!(error.message().starts_with("prefix of keys: "), "{error}");
            assert!(!format!("{error:?}").contains("secret"));
        }
        assert_eq!(KeyPrefix::new("cafe\u{301}").unwrap().expose(), "caf\u{e9}");
    }
}
