//! The prefix of the keys of a listing.

use std::sync::Arc;

use crate::value::{Key, LockError};

/// The prefix of the keys of a listing: 0 to 512 bytes of text in NFC. Every key begins with the empty prefix.
///
/// # Errors
///
/// `InvalidArgument` if the text is longer than 512 bytes in NFC or contains NUL: no key begins with such a text.
pub(super) fn checked(text: &str) -> Result<Arc<str>, LockError> {
    if text.is_empty() {
        return Ok(Arc::default());
    }
    // A text that cannot be a key cannot be the beginning of a key.
    Key::new(text).map(|key| Arc::from(key.expose())).map_err(|refused| {
        LockError::invalid_argument(format!(
            "prefix of keys: {}; an empty one stands for all keys",
            refused.message()
        ))
    })
}

/// The first text, in the order of the bytes, after all texts with this prefix. If there is none, a text that is after
/// every key.
pub(super) fn end_of(prefix: &str) -> String {
    // UTF-8 has the order of the characters, and a range of `char` skips the surrogates.
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return text;
        }
    }
    after_every_key()
}

/// The last character, repeated more often than fits in a key.
pub(super) fn after_every_key() -> String {
    char::MAX.to_string().repeat(Key::MAX_LENGTH_BYTES / char::MAX.len_utf8() + 1)
}

#[cfg(test)]
mod tests {
    use super::{Key, checked, end_of};

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
            let behind = end_of(prefix);
            assert!(end.is_none_or(|end| end == behind));
            let room = (Key::MAX_LENGTH_BYTES - prefix.len()) / max.len_utf8();
            let inside = Key::new(format!("{prefix}{}", max.to_string().repeat(room)));
            assert!(inside.unwrap().expose() < behind.as_str() && prefix < behind.as_str());
        }
    }

    #[test]
    fn what_no_key_begins_with_is_refused_without_showing_it() {
        for bad in ["secret\0", &"secret".repeat(100)] {
            let error = checked(bad).unwrap_err();
            assert!(error.message().starts_with("prefix of keys: "), "{error}");
            assert!(!format!("{error:?}").contains("secret"));
        }
        assert_eq!(&*checked("cafe\u{301}").unwrap(), "caf\u{e9}");
    }
}
