//! The names of a key's records.

use syncguard_core::{LockError, LockId};

/// The prefix of all names: `prefix/l/key` is a lock, `prefix/f/key` the fence counter of the key, and `prefix/i/lock id` has
/// the key of a lock.
#[derive(Clone, Debug)]
pub(crate) struct Layout(Box<str>);

impl Layout {
    /// # Errors
    ///
    /// `InvalidArgument` for a prefix that is empty, too long, or ends in a slash.
    pub(crate) fn new(prefix: &str) -> Result<Self, LockError> {
        let is_allowed = (1..=512).contains(&prefix.len())
            && !prefix.ends_with('/')
            && !prefix.chars().any(char::is_control);
        if !is_allowed {
            return Err(LockError::invalid_argument(
                "a key prefix is 1 to 512 bytes of text without control characters and without a slash at its \
                 end, as in syncguard or /apps/locks",
            ));
        }
        Ok(Self(prefix.into()))
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.0
    }

    /// The name of the lock of a key, or of the beginning of one.
    pub(crate) fn lock(&self, key: &str) -> String {
        format!("{}/l/{key}", self.0)
    }

    /// The name of the counter of a key, or of the beginning of one.
    pub(crate) fn counter(&self, key: &str) -> String {
        format!("{}/f/{key}", self.0)
    }

    /// The name of the index entry of a lock.
    pub(crate) fn index(&self, lock_id: LockId) -> String {
        format!("{}/i/{}", self.0, lock_id.expose())
    }

    /// The key in the name of a lock or a counter.
    pub(crate) fn key_in<'n>(&self, name: &'n [u8]) -> Option<&'n str> {
        std::str::from_utf8(name.get(self.0.len() + 3..)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_names_of_its_own() {
        let layout = Layout::new("/apps/locks").unwrap();
        assert_eq!(layout.lock("a/b"), "/apps/locks/l/a/b");
        let counter = layout.counter("a/b");
        assert_eq!(counter, "/apps/locks/f/a/b");
        let id = LockId::new("apesXHOdi5wMq4V2M0-VRg").unwrap();
        assert_eq!(layout.index(id), "/apps/locks/i/apesXHOdi5wMq4V2M0-VRg");
        assert_eq!(layout.key_in(counter.as_bytes()), Some("a/b"));
        assert_eq!(layout.key_in(b"/apps"), None);
        assert_eq!(layout.key_in(b"/apps/locks/l/\xff"), None);
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for wrong in ["", "/", "a/", "a\0", "a\n", &"a".repeat(513)] {
            assert!(Layout::new(wrong).is_err(), "{wrong:?}");
        }
        for right in ["syncguard", "/a", "a/b", "é", &"a".repeat(512)] {
            assert!(Layout::new(right).is_ok(), "{right:?}");
        }
    }
}
