//! What a backend answers.

use crate::{Fence, FenceToken, Key, LockError, LockId, Timestamp};

/// The answer to an acquire: contention is an answer, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an acquired lock is held until it is released or expires"]
pub enum AcquireResult<F = Fence> {
    /// The lock is ours.
    Acquired(Acquired<F>),
    /// Someone else holds the lock.
    Locked,
}

impl<F> AcquireResult<F> {
    /// The lock, if it was granted.
    pub fn acquired(self) -> Option<Acquired<F>> {
        match self {
            Self::Acquired(acquired) => Some(acquired),
            Self::Locked => None,
        }
    }

    /// Whether the lock was granted.
    #[must_use]
    pub const fn is_acquired(&self) -> bool {
        matches!(self, Self::Acquired(_))
    }
}

/// A granted lock. TypeScript: `AcquireOk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an acquired lock is held until it is released or expires"]
#[non_exhaustive]
pub struct Acquired<F = Fence> {
    /// What releases and extends the lock.
    pub lock_id: LockId,
    /// When the lock expires, by the store's time authority. Do not compare it with a local clock.
    pub expires_at: Timestamp,
    /// The fencing token: a [`Fence`] on a backend that fences.
    pub fence: F,
}

impl<F: FenceToken> Acquired<F> {
    /// For authors of backends.
    pub fn new(lock_id: LockId, expires_at: Timestamp, fence: F) -> Self {
        Self { lock_id, expires_at, fence }
    }
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a lock that was no longer held may have been held by someone else meanwhile"]
pub enum ReleaseResult {
    /// The lock was ours and is free now.
    Released,
    /// The lock was not ours any more; nothing was changed.
    NotHeld(NotHeld),
}

impl ReleaseResult {
    /// Whether the lock was ours until now.
    #[must_use]
    pub const fn is_released(self) -> bool {
        matches!(self, Self::Released)
    }
}

/// The answer to an extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a lock that could not be extended is lost"]
#[non_exhaustive]
pub enum ExtendResult {
    /// The lock lives for the requested TTL from now on.
    Extended {
        /// The new expiry, by the store's time authority.
        expires_at: Timestamp,
    },
    /// The lock is ours, and expires at another time than the request
    /// [expected](crate::ExtendRequest::with_expected_expiry): another extend came first. Nothing was
    /// changed.
    Mismatch {
        /// The expiry as it is, by the store's time authority.
        expires_at: Timestamp,
    },
    /// The lock was not ours any more; nothing was changed.
    NotHeld(NotHeld),
}

impl ExtendResult {
    /// Whether the lock is ours and lives on.
    #[must_use]
    pub const fn is_extended(self) -> bool {
        matches!(self, Self::Extended { .. })
    }
}

/// Why a lock was not held, as far as the store can tell without another look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotHeld {
    /// The lock's record is still there, past its expiry and the tolerance.
    Expired,
    /// There is no such lock: released, expired and cleared away, taken over, or never there.
    NotFound,
}

impl NotHeld {
    /// `"expired"` or `"not-found"`, as telemetry spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NotFound => "not-found",
        }
    }
}

/// A live lock, as a lookup sees it.
///
/// `Debug` and serde show the hashes of key and lock id. The raw ones come out through
/// [`expose`](Self::expose) alone.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo<F = Fence> {
    /// When the lock expires, by the store's time authority.
    pub expires_at: Timestamp,
    /// When the lock was acquired, by the store's time authority.
    pub acquired_at: Timestamp,
    /// The fence of the acquisition.
    pub fence: F,
    key: Key,
    lock_id: LockId,
}

impl<F: FenceToken> LockInfo<F> {
    /// For authors of backends: the key must be the user's, not the store's name for it.
    #[must_use]
    pub fn new(
        key: Key,
        lock_id: LockId,
        acquired_at: Timestamp,
        expires_at: Timestamp,
        fence: F,
    ) -> Self {
        Self { expires_at, acquired_at, fence, key, lock_id }
    }

    /// The hash of the key.
    #[must_use]
    pub fn key_hash(&self) -> crate::HashId {
        self.key.hash_id()
    }

    /// The hash of the lock id.
    #[must_use]
    pub fn lock_id_hash(&self) -> crate::HashId {
        self.lock_id.hash_id()
    }

    /// The key and the lock id themselves, for debugging. Keep them out of logs.
    #[must_use]
    pub fn expose(self) -> LockInfoDebug<F> {
        LockInfoDebug { key: self.key.clone(), lock_id: self.lock_id, info: self }
    }
}

impl<F: FenceToken> std::fmt::Debug for LockInfo<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockInfo")
            .field("key_hash", &self.key_hash())
            .field("lock_id_hash", &self.lock_id_hash())
            .field("expires_at", &self.expires_at)
            .field("acquired_at", &self.acquired_at)
            .field("fence", &self.fence)
            .finish()
    }
}

#[cfg(feature = "serde")]
impl<F: FenceToken> serde::Serialize for LockInfo<F> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let fence = self.fence.fence();
        let mut fields =
            serializer.serialize_struct("LockInfo", 4 + usize::from(fence.is_some()))?;
        fields.serialize_field("keyHash", &self.key_hash())?;
        fields.serialize_field("lockIdHash", &self.lock_id_hash())?;
        fields.serialize_field("expiresAtMs", &self.expires_at)?;
        fields.serialize_field("acquiredAtMs", &self.acquired_at)?;
        if let Some(fence) = fence {
            fields.serialize_field("fence", &fence)?;
        }
        fields.end()
    }
}

/// A [`LockInfo`] with the raw key and lock id beside it.
///
/// Even here both print as hashes; [`Key::expose`] and [`LockId::expose`] give the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfoDebug<F: FenceToken = Fence> {
    /// What is safe to show.
    pub info: LockInfo<F>,
    /// The user's key.
    pub key: Key,
    /// The holder's lock id.
    pub lock_id: LockId,
}

/// A stored record that makes no sense, for authors of backends: `Internal`, naming the hash of
/// the storage key.
///
/// Such a record is never treated as free and never deleted.
#[must_use]
pub fn corrupt_record(storage_key: &str, problem: &'static str) -> LockError {
    LockError::internal(format!("corrupt lock record {}: {problem}", crate::hash_key(storage_key)))
}
