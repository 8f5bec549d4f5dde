//! A live lock, as a lookup sees it.

use crate::value::{Fence, FenceToken, Holder, Key, LockId, Timestamp};

/// A live lock, as a lookup sees it.
///
/// `Debug` and serde show the hashes of key and lock id.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo<F = Fence> {
    /// When the lock expires, by the store's time authority.
    pub expires_at: Timestamp,
    /// When the lock was acquired, by the store's time authority.
    pub acquired_at: Timestamp,
    /// The fence of the acquisition.
    pub fence: F,
    /// The holder, if one is stored: a lock of another library's client has none.
    pub holder: Option<Holder>,
    /// The user's key. `Debug` and serde show its hash; [`Key::expose`] gives the text. Keep it out of logs.
    pub key: Key,
    /// The lock id, of which the same holds. It is enough to release the lock.
    pub lock_id: LockId,
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
        Self { expires_at, acquired_at, fence, holder: None, key, lock_id }
    }

    /// For authors of backends: the holder that is stored with the lock. A holder without a label and a note
    /// counts as none.
    #[must_use]
    pub fn with_holder(mut self, holder: Option<Holder>) -> Self {
        self.holder = holder.filter(|holder| holder.fields().any(|(_, text)| !text.is_empty()));
        self
    }
}

impl<F: FenceToken> std::fmt::Debug for LockInfo<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockInfo")
            .field("key_hash", &self.key.hash_id())
            .field("lock_id_hash", &self.lock_id.hash_id())
            .field("expires_at", &self.expires_at)
            .field("acquired_at", &self.acquired_at)
            .field("fence", &self.fence)
            .field("holder", &self.holder)
            .finish()
    }
}

#[cfg(feature = "serde")]
impl<F: FenceToken> serde::Serialize for LockInfo<F> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let fence = self.fence.fence();
        let people =
            || self.holder.iter().flat_map(Holder::fields).filter(|(_, text)| !text.is_empty());
        let fields = 4 + usize::from(fence.is_some()) + people().count();
        let mut fields = serializer.serialize_struct("LockInfo", fields)?;
        fields.serialize_field("keyHash", &self.key.hash_id())?;
        fields.serialize_field("lockIdHash", &self.lock_id.hash_id())?;
        fields.serialize_field("expiresAtMs", &self.expires_at)?;
        fields.serialize_field("acquiredAtMs", &self.acquired_at)?;
        if let Some(fence) = fence {
            fields.serialize_field("fence", &fence)?;
        }
        for (name, text) in people() {
            fields.serialize_field(name, text)?;
        }
        fields.end()
    }
}
