//! The names of the objects.

use std::collections::BTreeSet;

use object_store::path::Path;
use syncguard_core::authoring::{StorageLimits, make_hashed_storage_key};
use syncguard_core::{Key, LockError, LockId};

/// The prefix of all names. `prefix/k/key` has the lock, the fence counter and the key; `prefix/i/hash of the lock id` has the key of
/// a lock. Stores and proxies log names, and a lock id is a secret.
///
/// In the name of a key, each byte but letters, digits, `-`, `_` and `:` is `=` and two digits, so that names are in an order and
/// have the beginnings of their keys. The name of a key that would be too long is `==` and a hash.
#[derive(Clone, Debug)]
pub(crate) struct Layout(Box<str>);

/// Room for a hash in a name.
const LIMITS: StorageLimits = StorageLimits { limit: 100, reserve: 0 };

/// The longest name of a key. Stores take names of 1024 bytes.
const LONGEST: usize = 600;

/// The beginning of hashes of keys.
const HASHED: &str = "==";

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
        if prefix.len() > 300 || !prefix.split('/').all(is_allowed) {
            return Err(LockError::invalid_argument(
                "a prefix is 1 to 300 letters, digits, - _ . = with single slashes between them, as in locks or apps/locks",
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
        let name = escaped(key.expose());
        if name.len() <= LONGEST {
            return Ok(self.path(&format!("k/{name}")));
        }
        let hash = make_hashed_storage_key("", key, LIMITS)?;
        Ok(self.path(&format!("k/{HASHED}{}", hash.expose())))
    }

    /// The parts of the folder of the keys in which keys with this beginning are, in their order: also all hashes.
    pub(crate) fn parts(&self, beginning: &str) -> Vec<String> {
        let part = |text: &str| format!("{}/k/{text}", self.0);
        match beginning {
            "" => vec![part("")],
            _ => BTreeSet::from([part(HASHED), part(&escaped(beginning))]).into_iter().collect(),
        }
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

/// A name that is before each name with this beginning, and after most others.
pub(crate) fn before(beginning: &str) -> Option<String> {
    let (last, rest) = beginning.as_bytes().split_last()?;
    let before = char::from(last.checked_sub(1)?);
    Some(format!("{}{before}zzzz", std::str::from_utf8(rest).ok()?))
}

fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    let mut name = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_:".contains(&byte) {
            name.push(byte.into());
        } else {
            // Writing to a `String` never fails.
            let _ = write!(name, "={byte:02X}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_keys_and_no_lock_ids() {
        let layout = Layout::new("apps/locks").unwrap();
        let name = |key: &str| layout.key(&Key::new(key).unwrap()).unwrap();
        let key = name("job:7");
        assert_eq!(key.as_ref(), "apps/locks/k/job:7");
        assert_eq!(name("a/é.=").as_ref(), "apps/locks/k/a=2F=C3=A9=2E=3D");
        assert_eq!(name("..").as_ref(), "apps/locks/k/=2E=2E");
        let long = name(&"é".repeat(256));
        assert!(
            long.as_ref().starts_with("apps/locks/k/==") && long.as_ref().len() == 37,
            "{long}"
        );
        assert!(key.prefix_matches(&layout.keys()));
        assert_eq!(layout.parts("é"), ["apps/locks/k/==", "apps/locks/k/=C3=A9"]);
        assert_eq!(layout.parts("1"), ["apps/locks/k/1", "apps/locks/k/=="]);
        assert_eq!(before("k/job"), Some("k/joazzzz".to_owned()));
        let id = LockId::new("apesXHOdi5wMq4V2M0-VRg").unwrap();
        let index = layout.index(id).unwrap();
        assert!(index.as_ref().starts_with("apps/locks/i/") && !index.as_ref().contains("apes"));
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for wrong in
            ["", "/", "a/", "/a", "a//b", "a/../b", ".", "a b", "a\n", "é", &"a".repeat(301)]
        {
            assert!(Layout::new(wrong).is_err(), "{wrong:?}");
        }
        for right in ["locks", "a/b", "team=a/v1.2", &"a".repeat(300)] {
            assert!(Layout::new(right).is_ok(), "{right:?}");
        }
    }
}
