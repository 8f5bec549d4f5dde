//! How keys become the names of records, the same way in both libraries.
//!
//! For authors of backends. A backend stores a lock under [`make_storage_key`] of its key and the
//! fence counter under [`make_fence_key`] of that, so that each key has exactly one counter even
//! where long keys are hashed.

use std::borrow::Cow;

use base64ct::{Base64UrlUnpadded, Encoding};
use sha2::{Digest, Sha256};

use crate::LockError;
use crate::normalize::nfc;

/// How long the names of a store's records may be, in bytes of UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StorageLimits {
    /// The longest name the store takes. TypeScript: `BACKEND_LIMITS`.
    pub limit: usize,
    /// What is kept free for names derived from this one. TypeScript: `RESERVE_BYTES`.
    pub reserve: usize,
}

impl StorageLimits {
    /// Redis: 1000 bytes, of which `:id:` and a lock id take 26.
    pub const REDIS: Self = Self { limit: 1000, reserve: 26 };

    /// PostgreSQL: 1700 bytes, well under what a B-tree index entry holds.
    pub const POSTGRES: Self = Self { limit: 1700, reserve: 0 };

    /// Firestore: 1500 bytes, the length of a document id.
    pub const FIRESTORE: Self = Self { limit: 1500, reserve: 0 };

    /// Whether a name of this length leaves the reserve free.
    const fn fit(self, length: usize) -> bool {
        length <= self.limit.saturating_sub(self.reserve)
    }
}

/// The name a key's record is stored under: `prefix:key`, or `prefix:hash` where that is too long.
/// TypeScript: `makeStorageKey`.
///
/// Trailing colons of the prefix are dropped, and an empty prefix leaves the key alone. The hash is
/// the first 16 bytes of the SHA-256 of the whole `prefix:key`, as 22 base64url characters.
/// Allocates nothing but the result when the key is ASCII and fits.
///
/// # Errors
///
/// `InvalidArgument` if the key is empty, or if the prefix leaves no room for even a hash.
///
/// ```
/// use syncguard_core::{StorageLimits, make_storage_key};
///
/// assert_eq!(make_storage_key("app:", "job:1", StorageLimits::REDIS)?, "app:job:1");
/// assert_eq!(make_storage_key("", "job:1", StorageLimits::POSTGRES)?, "job:1");
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
pub fn make_storage_key(
    prefix: &str,
    key: &str,
    limits: StorageLimits,
) -> Result<String, LockError> {
    let name = Name::new(prefix, key, limits)?;
    if limits.fit(name.len()) { Ok(name.plain()) } else { name.hashed(limits) }
}

/// The hashed form of [`make_storage_key`] whatever the length, for a store that cannot take this
/// key's text as a name.
///
/// Any 22 base64url characters are also a key of their own. A store that hashes some keys and stores
/// others as they are has to keep the two apart, for example by making the first longer than
/// [any key](crate::Key::MAX_LENGTH_BYTES).
///
/// # Errors
///
/// As [`make_storage_key`].
pub fn make_hashed_storage_key(
    prefix: &str,
    key: &str,
    limits: StorageLimits,
) -> Result<String, LockError> {
    Name::new(prefix, key, limits)?.hashed(limits)
}

/// The name of the fence counter that belongs to a lock's storage key.
///
/// It is derived from the storage key, not from the user's key, so that a truncated key and its
/// counter hash the same text.
///
/// # Errors
///
/// `InvalidArgument` as [`make_storage_key`].
///
/// ```
/// use syncguard_core::{StorageLimits, make_fence_key, make_storage_key};
///
/// let lock = make_storage_key("app", "job:1", StorageLimits::REDIS)?;
/// assert_eq!(make_fence_key("app", &lock, StorageLimits::REDIS)?, "app:fence:app:job:1");
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
pub fn make_fence_key(
    prefix: &str,
    storage_key: &str,
    limits: StorageLimits,
) -> Result<String, LockError> {
    make_storage_key(prefix, &["fence:", storage_key].concat(), limits)
}

/// `prefix:key` in its parts, without regard to its length.
struct Name<'a> {
    prefix: &'a str,
    separator: &'static str,
    key: Cow<'a, str>,
}

const HASH_CHARS: usize = 22;

impl<'a> Name<'a> {
    fn new(prefix: &'a str, key: &'a str, limits: StorageLimits) -> Result<Self, LockError> {
        if key.is_empty() {
            return Err(LockError::invalid_argument("key is empty; 1 to 512 bytes are allowed"));
        }
        let prefix = prefix.trim_end_matches(':');
        let separator = if prefix.is_empty() { "" } else { ":" };
        if !limits.fit(prefix.len() + separator.len()) {
            return Err(prefix_too_long(prefix, limits));
        }
        Ok(Self { prefix, separator, key: nfc(key) })
    }

    fn len(&self) -> usize {
        self.prefix.len() + self.separator.len() + self.key.len()
    }

    fn plain(&self) -> String {
        [self.prefix, self.separator, &self.key].concat()
    }

    fn hashed(&self, limits: StorageLimits) -> Result<String, LockError> {
        let digest = Sha256::new()
            .chain_update(self.prefix)
            .chain_update(self.separator)
            .chain_update(self.key.as_ref())
            .finalize();
        let mut buffer = [0; HASH_CHARS];
        let hash = Base64UrlUnpadded::encode(&digest[..16], &mut buffer)
            .map_err(|_| LockError::internal("a hash does not fit 22 characters"))?;
        let name = [self.prefix, self.separator, hash].concat();
        if !limits.fit(name.len()) {
            return Err(prefix_too_long(self.prefix, limits));
        }
        Ok(name)
    }
}

fn prefix_too_long(prefix: &str, limits: StorageLimits) -> LockError {
    LockError::invalid_argument(format!(
        "prefix is {} bytes long; at most {} leave room for every key",
        prefix.len(),
        limits.limit.saturating_sub(limits.reserve).saturating_sub(HASH_CHARS + 1)
    ))
}
