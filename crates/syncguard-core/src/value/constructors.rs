//! How keys, lock ids and hashes are made and checked.
//!
//! A [`LockError`] carries keys and lock ids, so the functions that fail with it are apart from the types.

use std::str::FromStr;
use std::sync::Arc;

use base64ct::{Base64UrlUnpadded, Encoding};

use super::error::{ErrorCode, LockError};
use super::hash::HashId;
use super::key::Key;
use super::lock_id::LockId;
use super::normalize::nfc;
use super::random::fill;

impl Key {
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
}

fn too_long(length: usize) -> LockError {
    LockError::invalid_argument(format!(
        "key is {length} bytes long; at most {} are allowed after NFC normalisation",
        Key::MAX_LENGTH_BYTES
    ))
}

/// A [`Key`], or a text that becomes one: `&str`, `String`, and each type that [`TryFrom`] turns into a key.
///
/// Implement [`TryFrom`] for a type, not this trait.
pub trait IntoKey {
    /// The key, or the reason why the text cannot be a key.
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

/// Makes a type of texts, with the errors of its `new`.
macro_rules! from_texts {
    ($type:ident: $($text:ty),+) => {
        impl FromStr for $type {
            type Err = LockError;

            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($type), "::new`].")]
            fn from_str(text: &str) -> Result<Self, LockError> {
                Self::new(text)
            }
        }

        $(impl TryFrom<$text> for $type {
            type Error = LockError;

            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($type), "::new`].")]
            fn try_from(text: $text) -> Result<Self, LockError> {
                Self::new(text)
            }
        })+
    };
}

from_texts!(Key: &str, String, &String);
from_texts!(LockId: &str, String);

impl LockId {
    /// A fresh lock id from the operating system's secure random source. TypeScript: `generateLockId`.
    ///
    /// # Errors
    ///
    /// `Internal` if the operating system has no randomness to give.
    pub fn generate() -> Result<Self, LockError> {
        let mut random = [0; 16];
        fill(&mut random).map_err(|error| {
            LockError::internal("no secure random source for a lock id").with_source(&error)
        })?;
        let mut text = [0; Self::LENGTH];
        Base64UrlUnpadded::encode(&random, &mut text).map_err(|_| {
            LockError::new(ErrorCode::Internal, "a lock id does not fit 22 characters")
        })?;
        Ok(Self(text))
    }

    /// Checks the text of a lock id. TypeScript: `validateLockId`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` unless the text matches `^[A-Za-z0-9_-]{22}$`.
    pub fn new(text: impl AsRef<str>) -> Result<Self, LockError> {
        let bytes = text.as_ref().as_bytes();
        let text: [u8; Self::LENGTH] = bytes.try_into().map_err(|_| {
            LockError::invalid_argument(format!(
                "lock id is {} bytes long; exactly 22 base64url characters are allowed",
                bytes.len()
            ))
        })?;
        if !text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Err(LockError::invalid_argument(
                "lock id has a character outside A-Z a-z 0-9 - _; exactly 22 base64url characters are allowed",
            ));
        }
        Ok(Self(text))
    }
}

impl FromStr for HashId {
    type Err = LockError;

    /// # Errors
    ///
    /// `InvalidArgument` unless the text is 24 lowercase hex digits.
    fn from_str(text: &str) -> Result<Self, LockError> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let malformed = || LockError::invalid_argument("a hash id is 24 lowercase hex digits");
        let digits: &[u8; 24] = text.as_bytes().try_into().map_err(|_| malformed())?;
        let mut hash = [0; 12];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let (high, low) = digit(pair[0]).zip(digit(pair[1])).ok_or_else(malformed)?;
            *byte = high << 4 | low;
        }
        Ok(Self(hash))
    }
}
