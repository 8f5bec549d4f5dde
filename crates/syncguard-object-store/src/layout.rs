//! The names of the objects.

use object_store::path::Path;
use syncguard_core::authoring::{StorageLimits, make_hashed_storage_key};
use syncguard_core::{Key, LockError, LockId};

/// The prefix of all names. `prefix/k/hash of the key` has the lock, the fence counter and the key; `prefix/i/hash of the lock
/// id` has the key of a lock. So neither keys nor lock ids get into the names, which stores and proxies log.
#[derive(Clone, Debug)]
pub(crate) struct Layout(Box<str>);

/// Room for a hash in a name.
const LIMITS: StorageLimits = StorageLimits::new(100, 0);

impl Layout {
    /// # Errors
    ///
    /// `InvalidArgument` for a prefix that is empty, too long, or has other characters than these.
    pub(crate) fn new(prefix: &str) -> Result<Self, LockError> {
        let is_allowed = |part: &str| {
            !part.is_empty()
                && !matches!(part, "." | "..")
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.=".contains(c))
        };
        if prefix.len() > 512 || !prefix.split('/').all(is_allowed) {
            return Err(LockError::invalid_argument(
                "a prefix is 1 to 512 letters, digits, - _ . = with single slashes between them, as in locks or apps/locks",
            ));
        }
        Ok(Self(prefix.into()))
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.0
    }

    /// The folder of the keys.
    pub(crate) fn keys(&self) -> Path {
        self.path("k")
    }

    /// # Errors
    ///
    /// None: a hash always has room.
    pub(crate) fn key(&self, key: &Key) -> Result<Path, LockError> {
        Ok(self.path(&format!("k/{}", make_hashed_storage_key("", key, LIMITS)?.expose())))
    }

    /// # Errors
    ///
    /// As [`key`](Self::key).
    pub(crate) fn index(&self, lock_id: LockId) -> Result<Path, LockError> {
        let text = Key::new(lock_id.expose())?;
        Ok(self.path(&format!("i/{}", make_hashed_storage_key("", &text, LIMITS)?.expose())))
    }

    /// The object that only tells the time.
    pub(crate) fn time(&self) -> Path {
        self.path("t")
    }

    /// An object for a check of the store.
    pub(crate) fn check(&self, name: &str) -> Path {
        self.path(&format!("c/{name}"))
    }

    fn path(&self, rest: &str) -> Path {
        Path::from(format!("{}/{rest}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_neither_keys_nor_lock_ids() {
        let layout = Layout::new("apps/locks").unwrap();
        let key = layout.key(&Key::new("job:7").unwrap()).unwrap();
        assert_eq!(key.as_ref(), "apps/locks/k/4ckBdeO1Kbt0o2HvIA2eIQ");
        assert!(key.prefix_matches(&layout.keys()));
        let id = LockId::new("apesXHOdi5wMq4V2M0-VRg").unwrap();
        let index = layout.index(id).unwrap();
        assert!(index.as_ref().starts_with("apps/locks/i/") && !index.as_ref().contains("apes"));
        assert_eq!(index.as_ref().len(), key.as_ref().len());
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for wrong in
            ["", "/", "a/", "/a", "a//b", "a/../b", ".", "a b", "a\n", "é", &"a".repeat(513)]
        {
            assert!(Layout::new(wrong).is_err(), "{wrong:?}");
        }
        for right in ["locks", "a/b", "team=a/v1.2", &"a".repeat(512)] {
            assert!(Layout::new(right).is_ok(), "{right:?}");
        }
    }
}
