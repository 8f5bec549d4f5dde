//! The id of a lock, which proves that a caller holds it.

use std::fmt;

use super::hash::{HashId, hash_key};

/// The proof of holding a lock: 128 random bits, written as 22 base64url characters.
///
/// A caller that knows a lock id can release and extend its lock, so the id is a secret like a session
/// token. `Debug` shows a hash; only [`expose`](Self::expose) gives the text.
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
pub struct LockId(pub(super) [u8; LockId::LENGTH]);

impl LockId {
    /// The length of a lock id's text, in bytes.
    pub(crate) const LENGTH: usize = 22;

    /// The text of the lock id. Keep it out of logs: it gives the right to release the lock.
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

impl From<&LockId> for HashId {
    /// Never fails; the same as [`hash_key`] of the exposed lock id.
    fn from(lock_id: &LockId) -> Self {
        hash_key(lock_id.expose())
    }
}
