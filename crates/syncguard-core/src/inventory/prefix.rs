//! The beginning of keys.

use std::fmt;
use std::sync::Arc;

use crate::authoring::hash_key;
use crate::{Key, LockError};

/// The beginning of the keys of a listing: 0 to 512 bytes of text in NFC. The empty one is that of every key.
///
/// `Debug` shows a hash, as that of [`Key`] does; the text comes out through [`expose`](Self::expose) alone.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct KeyPrefix(Arc<str>);

impl KeyPrefix {
    /// Normalises and checks a prefix.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the text is longer than 512 bytes in NFC, or contains NUL: no key begins so.
    pub(super) fn new(text: impl AsRef<str>) -> Result<Self, LockError> {
        fn checked(text: &str) -> Result<KeyPrefix, LockError> {
            if text.is_empty() {
                return Ok(KeyPrefix::default());
            }
            // What is no key begins none.
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

    /// The first text, in the order of the bytes, behind all that begin so. Where nothing comes behind them, a text
    /// that is behind every key.
    pub(super) fn end(&self) -> String {
        // The order of UTF-8 is that of the characters, and no character lies among the surrogates.
        let mut text = self.expose().to_owned();
        while let Some(last) = text.pop() {
            if let Some(next) = (last..=char::MAX).nth(1) {
                text.push(next);
                return text;
            }
        }
        behind_all()
    }

    /// A prefix that no key has.
    pub(super) fn of_no_key() -> Self {
        Self(behind_all().into())
    }
}

/// As many of the last character as no key has.
fn behind_all() -> String {
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
