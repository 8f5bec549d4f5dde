//! Who holds a lock.

use std::fmt;
use std::str::FromStr;

use base64ct::{Base64UrlUnpadded, Encoding};

use super::random::fill;
use crate::contract::HashId;
use crate::{ErrorCode, LockError};

/// The proof of holding a lock: 128 random bits, written as 22 base64url characters.
///
/// Whoever knows a lock id can release and extend its lock, so it is a secret like a session
/// token. `Debug` shows a hash; the text comes out through [`expose`](Self::expose) alone.
///
/// ```
/// use syncguard_core::LockId;
///
/// let id = LockId::generate()?;
/// assert_eq!(LockId::new(id.expose())?, id);
/// assert!(!format!("{id:?}").contains(id.expose()));
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockId([u8; LockId::LENGTH]);

impl LockId {
    /// The length of a lock id's text, in bytes.
    pub const LENGTH: usize = 22;

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

    /// Checks a lock id that came from outside. TypeScript: `validateLockId`.
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

    /// The text of the lock id. Keep it out of logs: it is a capability.
    #[must_use]
    pub fn expose(&self) -> &str {
        // Both constructors admit ASCII only; the fallback keeps this free of panics.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The hash that stands for this lock id in logs and telemetry.
    #[must_use]
    pub fn hash_id(&self) -> HashId {
        HashId::from(self)
    }
}

impl fmt::Debug for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockId").field(&self.hash_id()).finish()
    }
}

impl FromStr for LockId {
    type Err = LockError;

    /// # Errors
    ///
    /// As [`LockId::new`].
    fn from_str(text: &str) -> Result<Self, LockError> {
        Self::new(text)
    }
}

impl TryFrom<&str> for LockId {
    type Error = LockError;

    /// # Errors
    ///
    /// As [`LockId::new`].
    fn try_from(text: &str) -> Result<Self, LockError> {
        Self::new(text)
    }
}

impl TryFrom<String> for LockId {
    type Error = LockError;

    /// # Errors
    ///
    /// As [`LockId::new`].
    fn try_from(text: String) -> Result<Self, LockError> {
        Self::new(text)
    }
}
