//! How keys become the names of records, in the same way as in the TypeScript library.

use std::borrow::Cow;
use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding};
use sha2::{Digest, Sha256};

use crate::value::{Key, LockError, hash_key, nfc};

/// The longest names of a store's records, in bytes of UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "a constant of its user")]
pub struct StorageLimits {
    /// The longest name that the store takes. TypeScript: `BACKEND_LIMITS`.
    pub limit: usize,
    /// The bytes of it that are reserved for names derived from this one. TypeScript: `RESERVE_BYTES`.
    pub reserve: usize,
}

impl StorageLimits {
    /// True if a name of this length leaves the reserve free.
    const fn fit(self, length: usize) -> bool {
        length <= self.room()
    }

    const fn room(self) -> usize {
        self.limit.saturating_sub(self.reserve)
    }
}

/// The name of a record. It may contain the user's key, so `Debug` shows its hash.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StorageKey(String);

impl StorageKey {
    /// A name made by the store's own rules, for stores that cannot use [`make_storage_key`].
    #[must_use]
    pub fn new(name: String) -> Self {
        Self(name)
    }

    /// The name in the store. Keep it out of logs.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The name in the store. Keep it out of logs.
    #[must_use]
    pub fn into_exposed(self) -> String {
        self.0
    }
}

impl fmt::Debug for StorageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StorageKey").field(&hash_key(&self.0)).finish()
    }
}

/// The name of a key's record: `prefix:key`, or `prefix:hash` if that is too long.
/// TypeScript: `makeStorageKey`.
///
/// Trailing colons of the prefix are dropped, and an empty prefix leaves the key alone. The hash is
/// the first 16 bytes of the SHA-256 of the whole `prefix:key`, as 22 base64url characters.
/// Allocates only the result if the key fits.
///
/// # Errors
///
/// `InvalidArgument` if the prefix leaves no room for the key or a hash.
///
/// ```
/// use syncguard_core::Key;
/// use syncguard_core::authoring::{StorageLimits, make_storage_key};
///
/// let limits = StorageLimits { limit: 1000, reserve: 0 };
/// let key = Key::new("job:1")?;
/// assert_eq!(make_storage_key("app:", &key, limits)?.expose(), "app:job:1");
/// assert_eq!(make_storage_key("", &key, limits)?.expose(), "job:1");
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
pub fn make_storage_key(
    prefix: &str,
    key: &Key,
    limits: StorageLimits,
) -> Result<StorageKey, LockError> {
    Name::new(prefix, Cow::Borrowed(key.expose())).stored(limits)
}

/// The hashed form of [`make_storage_key`] for a key of any length, for a store that cannot use this
/// key's text as a name.
///
/// A hash of 22 base64url characters could also be a key. A store that hashes some keys and stores
/// other keys unchanged must keep the two apart, for example by making the hashed names longer than
/// [any key](crate::Key::MAX_LENGTH_BYTES).
///
/// # Errors
///
/// `InvalidArgument` if the prefix leaves no room for a hash.
pub fn make_hashed_storage_key(
    prefix: &str,
    key: &Key,
    limits: StorageLimits,
) -> Result<StorageKey, LockError> {
    Name::new(prefix, Cow::Borrowed(key.expose())).hashed(limits)
}

/// The name of the fence counter for a lock's storage key. Each key has exactly one counter, even if long
/// keys are hashed.
///
/// The name is derived from the storage key, not from the user's key, so that a truncated key and its
/// counter hash the same text.
///
/// # Errors
///
/// `InvalidArgument` as [`make_storage_key`].
///
/// ```
/// use syncguard_core::Key;
/// use syncguard_core::authoring::{StorageLimits, make_fence_key, make_storage_key};
///
/// let limits = StorageLimits { limit: 1000, reserve: 0 };
/// let lock = make_storage_key("app", &Key::new("job:1")?, limits)?;
/// assert_eq!(make_fence_key("app", &lock, limits)?.expose(), "app:fence:app:job:1");
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
pub fn make_fence_key(
    prefix: &str,
    storage_key: &StorageKey,
    limits: StorageLimits,
) -> Result<StorageKey, LockError> {
    // The storage key is not always in NFC: its prefix is as the user wrote it.
    let counted = ["fence:", storage_key.expose()].concat();
    Name::new(prefix, nfc(&counted)).stored(limits)
}

/// The parts of `prefix:key`, of any length.
struct Name<'a> {
    prefix: &'a str,
    separator: &'static str,
    key: Cow<'a, str>,
}

const HASH_CHARS: usize = 22;

impl<'a> Name<'a> {
    fn new(prefix: &'a str, key: Cow<'a, str>) -> Self {
        let prefix = prefix.trim_end_matches(':');
        let separator = if prefix.is_empty() { "" } else { ":" };
        Self { prefix, separator, key }
    }

    fn stored(self, limits: StorageLimits) -> Result<StorageKey, LockError> {
        let length = self.prefix.len() + self.separator.len() + self.key.len();
        if limits.fit(length) {
            return Ok(StorageKey([self.prefix, self.separator, &self.key].concat()));
        }
        self.hashed(limits)
    }

    fn hashed(self, limits: StorageLimits) -> Result<StorageKey, LockError> {
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
        Ok(StorageKey(name))
    }
}

fn prefix_too_long(prefix: &str, limits: StorageLimits) -> LockError {
    LockError::invalid_argument(format!(
        "prefix is {} bytes long; at most {} leave room for every key",
        prefix.len(),
        limits.room().saturating_sub(HASH_CHARS + 1)
    ))
}
