//! The names of the tables and of their records.

use syncguard_core::authoring::hash_key;
use syncguard_core::authoring::{StorageKey, StorageLimits, make_fence_key, make_storage_key};
use syncguard_core::{Key, LockError};

/// Well below the limit of a B-tree index entry. TypeScript: `BACKEND_LIMITS.POSTGRES`.
const LIMITS: StorageLimits = StorageLimits { limit: 1700, reserve: 0 };

/// The name of a key's lock.
pub(crate) fn lock_name(key: &Key) -> Result<StorageKey, LockError> {
    make_storage_key("", key, LIMITS)
}

/// The prefix of the names of all counters. Keys are too short to be hashed in these names.
pub(crate) const FENCE_PREFIX: &str = "fence:";

/// The name of a lock's counter.
pub(crate) fn fence_name(lock: &StorageKey) -> Result<StorageKey, LockError> {
    make_fence_key("", lock, LIMITS)
}

/// The lock table and the table of fence counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tables {
    pub(crate) locks: TableName,
    pub(crate) fences: TableName,
}

impl Tables {
    /// Checks both names.
    pub(crate) fn new(locks: &str, fences: &str) -> Result<Self, LockError> {
        let tables = Self { locks: TableName::parse(locks)?, fences: TableName::parse(fences)? };
        if tables.locks.may_be(&tables.fences) {
            return Err(LockError::invalid_argument(
                "the lock table and the fence table have the same name; they must be two tables",
            ));
        }
        Ok(tables)
    }
}

/// A table's name, with its capitals: `App_Locks` is not the table `app_locks`, as in the operations of the TypeScript
/// library, which quote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    schema: Option<String>,
    name: String,
}

impl TableName {
    /// `table` or `schema.table`.
    fn parse(text: &str) -> Result<Self, LockError> {
        let (schema, name) = match text.split_once('.') {
            Some((schema, name)) => (Some(identifier(schema)?), identifier(name)?),
            None => (None, identifier(text)?),
        };
        Ok(Self { schema, name })
    }

    /// The name as it stands in a statement.
    pub(crate) fn quoted(&self) -> String {
        match &self.schema {
            Some(schema) => format!("\"{schema}\".\"{}\"", self.name),
            None => format!("\"{}\"", self.name),
        }
    }

    /// The name of an index of this table, which is TypeScript's name if that is not too long.
    ///
    /// PostgreSQL truncates longer names, and then two indexes of a table could get the same name.
    pub(crate) fn index(&self, suffix: &str) -> String {
        let whole = format!("idx_{}_{suffix}", self.name);
        if whole.len() <= MAX_BYTES {
            return format!("\"{whole}\"");
        }
        let hash = hash_key(&self.name).to_string();
        let room = MAX_BYTES - "idx__12345678_".len() - suffix.len();
        format!("\"idx_{}_{}_{suffix}\"", &self.name[..room], &hash[..8])
    }

    /// True if both may name one table: an unqualified name can be in any schema.
    fn may_be(&self, other: &Self) -> bool {
        let same_schema = match (&self.schema, &other.schema) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        };
        same_schema && self.name == other.name
    }
}

fn identifier(text: &str) -> Result<String, LockError> {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if first && rest && text.len() <= MAX_BYTES {
        Ok(text.to_owned())
    } else {
        Err(LockError::invalid_argument(
            "bad table name; allowed are up to 63 letters, digits and _ that do not start with a \
             digit, after a schema of the same kind and a dot if needed",
        ))
    }
}

/// The longest name in PostgreSQL.
const MAX_BYTES: usize = 63;

#[cfg(test)]
mod tests {
    use super::{TableName, Tables};

    #[test]
    fn every_counter_has_its_key_in_its_name() {
        for key in ["k", "fence:k", &"k".repeat(syncguard_core::Key::MAX_LENGTH_BYTES)] {
            let lock = super::lock_name(&syncguard_core::Key::new(key).unwrap()).unwrap();
            assert_eq!(lock.expose(), key);
            let fence = super::fence_name(&lock).unwrap();
            assert_eq!(fence.expose().strip_prefix(super::FENCE_PREFIX), Some(key));
        }
    }

    #[test]
    fn names_are_quoted_and_keep_their_capitals() {
        let quoted = |text| TableName::parse(text).unwrap().quoted();
        assert_eq!(quoted("syncguard_locks"), "\"syncguard_locks\"");
        assert_eq!(quoted("App_Locks"), "\"App_Locks\"");
        assert_eq!(quoted("Ops.order"), "\"Ops\".\"order\"");
    }

    #[test]
    fn bad_names_are_refused() {
        let long = "a".repeat(64);
        let bad =
            ["", ".", "a.", ".a", "a.b.c", "1a", "a-b", "a b", "a\"b", "a;b", "é", "a\0", &long];
        for name in bad {
            assert!(TableName::parse(name).is_err(), "{name:?}");
        }
        assert!(TableName::parse(&"a".repeat(63)).is_ok());
    }

    #[test]
    fn the_two_tables_must_differ() {
        for (locks, fences) in [("a", "a"), ("s.a", "a"), ("s.a", "s.a")] {
            assert!(Tables::new(locks, fences).is_err(), "{locks} {fences}");
        }
        assert!(Tables::new("s.a", "t.a").is_ok());
        assert!(Tables::new("a", "b").is_ok());
        assert!(Tables::new("a", "A").is_ok());
    }

    #[test]
    fn long_tables_keep_their_indexes_apart() {
        assert_eq!(TableName::parse("app").unwrap().index("lock_id"), "\"idx_app_lock_id\"");
        for length in 50..=63 {
            let table = TableName::parse(&"t".repeat(length)).unwrap();
            let other = TableName { name: format!("{}u", "t".repeat(length - 1)), schema: None };
            let indexes = [table.index("lock_id"), table.index("expires"), other.index("lock_id")];
            for (position, index) in indexes.iter().enumerate() {
                assert!(index.len() <= 63 + 2, "{index}");
                assert!(!indexes[..position].contains(index), "{index}");
            }
        }
    }
}
