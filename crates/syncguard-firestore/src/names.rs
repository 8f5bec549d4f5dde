//! The names of collections and of a key's documents.

use syncguard_core::authoring::{
    StorageKey, StorageLimits, make_fence_key, make_hashed_storage_key, make_storage_key,
};
use syncguard_core::{Key, LockError};

/// The length of a document id. TypeScript: `BACKEND_LIMITS.FIRESTORE`.
const LIMITS: StorageLimits = StorageLimits { limit: 1500, reserve: 0 };

/// The default database of a project.
pub(crate) const DEFAULT_DATABASE: &str = "(default)";

/// Returns whether these are valid names of a project and a database.
pub(crate) fn are_names(project: &str, database: &str) -> bool {
    let name = |text: &str, more: &[char]| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(&c))
    };
    let is_default = database == DEFAULT_DATABASE;
    name(project, &['-', '_', '.', ':']) && (is_default || name(database, &['-', '_']))
}

/// The names of a database and of its two collections.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    database: String,
    documents: String,
    locks: String,
    fences: String,
}

/// The full names of a key's documents.
#[derive(Clone)]
pub(crate) struct Names {
    pub(crate) lock: String,
    pub(crate) fence: String,
}

impl Layout {
    /// # Errors
    ///
    /// `InvalidArgument` for invalid names of project or database, for collection names that Firestore
    /// refuses, and for two equal collection names.
    pub(crate) fn new(
        project: &str,
        database: &str,
        locks: &str,
        fences: &str,
    ) -> Result<Self, LockError> {
        if !are_names(project, database) {
            return Err(LockError::invalid_argument(
                "bad name of a project or database; allowed are letters, digits, - and _, and in a project also . and :",
            ));
        }
        for collection in [locks, fences] {
            // Collections and documents alternate in a path, and a collection comes first and last.
            let is_collection = collection.split('/').count() % 2 == 1;
            if !is_collection || !collection.split('/').all(is_allowed_id) {
                return Err(LockError::invalid_argument(
                    "a collection is a name, or a path like tenants/acme/locks: an odd number of parts, each of \
                     1 to 1500 bytes without NUL, and neither \".\", \"..\" nor of the form __…__",
                ));
            }
        }
        if locks == fences {
            return Err(LockError::invalid_argument(
                "the collection of the fence counters must not be that of the locks: counters are \
                 never deleted, locks are",
            ));
        }
        let database = format!("projects/{project}/databases/{database}");
        let documents = format!("{database}/documents");
        Ok(Self { database, documents, locks: locks.to_owned(), fences: fences.to_owned() })
    }

    /// Returns `projects/…/databases/…`.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Returns the parent of the collection of the locks, and the name of the collection in it.
    pub(crate) fn lock_parent(&self) -> (String, &str) {
        self.parent_of(&self.locks)
    }

    /// Returns the parent of the collection of the counters, and the name of the collection in it.
    pub(crate) fn fence_parent(&self) -> (String, &str) {
        self.parent_of(&self.fences)
    }

    fn parent_of<'c>(&self, collection: &'c str) -> (String, &'c str) {
        match collection.rsplit_once('/') {
            Some((parent, name)) => ([&self.documents, "/", parent].concat(), name),
            None => (self.documents.clone(), collection),
        }
    }

    pub(crate) fn lock_collection(&self) -> &str {
        &self.locks
    }

    pub(crate) fn fence_collection(&self) -> &str {
        &self.fences
    }

    /// Returns the names of a key's documents.
    pub(crate) fn names(&self, key: &Key) -> Result<Names, LockError> {
        let id = lock_id_of(key)?;
        let fence_id = make_fence_key("", &id, LIMITS)?;
        Ok(Names { lock: self.name(&self.locks, &id), fence: self.name(&self.fences, &fence_id) })
    }

    /// Returns the name of a key's lock document.
    pub(crate) fn lock_name(&self, key: &Key) -> Result<String, LockError> {
        Ok(self.name(&self.locks, &lock_id_of(key)?))
    }

    fn name(&self, collection: &str, id: &StorageKey) -> String {
        [&self.documents, "/", collection, "/", id.expose()].concat()
    }
}

/// Returns the storage key in a document's full name.
pub(crate) fn storage_key_of(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, id)| id)
}

/// Returns the id of a key's lock document: the key itself, or its hash if Firestore refuses the key.
///
/// The id of the fence document is always allowed: it is `fence:` and this id.
pub(crate) fn lock_id_of(key: &Key) -> Result<StorageKey, LockError> {
    let id = make_storage_key("", key, LIMITS)?;
    if is_allowed_id(id.expose()) {
        Ok(id)
    } else {
        // A hash of 22 base64url characters is also a valid key, and the two keys must not share
        // documents. So the id is padded to be longer than any key.
        let hash = make_hashed_storage_key("", key, LIMITS)?;
        Ok(StorageKey::new(format!("{:~<1$}", hash.expose(), Key::MAX_LENGTH_BYTES + 1)))
    }
}

/// Returns whether this is a valid id of a document or a collection. Firestore would accept a document id
/// with slashes, but as a document of a subcollection.
fn is_allowed_id(id: &str) -> bool {
    // The service reserves `__.*__`, and also refuses `__` and `___`, which its documentation allows.
    let reserved = id.starts_with("__") && id.ends_with("__");
    !id.is_empty()
        && id.len() <= LIMITS.limit
        && !id.contains(['/', '\0'])
        && !matches!(id, "." | "..")
        && !reserved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new("p", "(default)", "locks", "fence_counters").unwrap()
    }

    fn names(key: &str) -> (String, String) {
        let names = layout().names(&Key::new(key).unwrap()).unwrap();
        let [lock, fence] = ["locks/", "fence_counters/"]
            .map(|collection| format!("projects/p/databases/(default)/documents/{collection}"));
        (
            names.lock.strip_prefix(&lock).unwrap().to_owned(),
            names.fence.strip_prefix(&fence).unwrap().to_owned(),
        )
    }

    #[test]
    fn an_ordinary_key_is_its_own_id() {
        for key in ["a", "a:b", "é", "日本", "...", "__x", "x__", "_", "___x", "%2F", "fence:a"]
        {
            assert_eq!(names(key), (key.to_owned(), format!("fence:{key}")));
        }
        let longest = "k".repeat(512);
        assert_eq!(names(&longest), (longest.clone(), format!("fence:{longest}")));
    }

    #[test]
    fn a_key_that_is_no_id_is_hashed() {
        for key in ["/", "a/b", "a/b/c", ".", "..", "__", "___", "____", "__x__", "__/__"] {
            let (lock, fence) = names(key);
            assert_eq!((lock.len(), lock.trim_end_matches('~').len()), (513, 22), "{key}");
            assert!(is_allowed_id(&lock) && is_allowed_id(&fence));
            assert_eq!(fence, format!("fence:{lock}"));
        }
        assert_ne!(names("a/b"), names("a/c"));
    }

    /// Every text of 22 base64url characters is a valid key.
    #[test]
    fn no_key_has_the_documents_of_another() {
        for hashed in ["a/b", "/", ".", "__x__"] {
            let (lock, fence) = names(hashed);
            let bare = make_hashed_storage_key("", &Key::new(hashed).unwrap(), LIMITS).unwrap();
            for key in [bare.expose(), &lock[..Key::MAX_LENGTH_BYTES]] {
                assert_ne!(names(key).0, lock, "{hashed}");
                assert_ne!(names(key).1, fence, "{hashed}");
            }
        }
        // A plain name of 22 characters is stored as it is, as the TypeScript library stores it.
        assert_eq!(names("refresh-customer-cache").0, "refresh-customer-cache");
    }

    #[test]
    fn a_nested_collection_is_queried_below_its_document() {
        let nested = Layout::new("p", "d", "tenants/acme/locks", "fences").unwrap();
        let documents = "projects/p/databases/d/documents";
        assert_eq!(nested.lock_parent(), (format!("{documents}/tenants/acme"), "locks"));
        let name = nested.lock_name(&Key::new("k").unwrap()).unwrap();
        assert_eq!(name, format!("{documents}/tenants/acme/locks/k"));
        assert_eq!(layout().lock_parent().1, "locks");
    }

    #[test]
    fn collections_are_checked() {
        let new = |locks: &str, fences: &str| Layout::new("p", "d", locks, fences);
        assert!(new("locks", "fences").is_ok());
        assert!(new("verrous-é", "x.y").is_ok());
        let long = "x".repeat(1501);
        assert!(new("tenants/acme/locks", "tenants/acme/fences").is_ok());
        for wrong in [
            "",
            ".",
            "..",
            "a/b",
            "/",
            "a//b",
            "/a/b",
            "a/./b",
            "a/b/c/d",
            "__locks__",
            "a\0b",
            &long,
        ] {
            assert!(new(wrong, "fences").is_err(), "{wrong}");
            assert!(new("locks", wrong).is_err(), "{wrong}");
        }
        assert!(new("locks", "locks").is_err());
    }
}
