//! Where records are stored, and which keys and prefixes would get in their way.

use std::fmt::Write as _;

use syncguard_core::{Key, LockError, LockId, StorageLimits, make_fence_key, make_storage_key};

const LIMITS: StorageLimits = StorageLimits::REDIS;

/// The names of the records under one prefix.
#[derive(Debug)]
pub(crate) struct Layout {
    prefix: String,
    /// What every user key starts with whose record would be a fence counter. `None` if no user key
    /// is long enough for that.
    fence_lead: Option<Key>,
    /// What comes before the lock id in the name of an index entry. `None` where that is hashed.
    index_lead: Option<String>,
}

/// The names of one lock's records.
pub(crate) struct Names {
    pub(crate) lock: String,
    pub(crate) fence: String,
}

impl Layout {
    /// Checks a prefix.
    pub(crate) fn new(prefix: &str) -> Result<Self, LockError> {
        let prefix = prefix.trim_end_matches(':').to_owned();
        if prefix.contains("fence:") || prefix.ends_with("fence") {
            return Err(LockError::invalid_argument(
                "the key prefix contains \"fence:\" or ends in \"fence\", where fence counters are; \
                 any other prefix is allowed",
            ));
        }
        let separator = if prefix.is_empty() { "" } else { ":" };
        let fence_lead = Key::new(format!("fence:{prefix}{separator}")).ok();
        let index_name = make_storage_key(&prefix, &index_key(SAMPLE_ID), LIMITS)?;
        let index_lead = index_name.strip_suffix(SAMPLE_ID).map(str::to_owned);
        Ok(Self { prefix, fence_lead, index_lead })
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether all names fall into one slot of a cluster: by the hash tag `{…}` of the prefix.
    pub(crate) fn is_tagged(&self) -> bool {
        self.prefix
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .is_some_and(|(tag, _)| !tag.is_empty())
    }

    /// The slot of all names, if the prefix is tagged.
    pub(crate) fn slot(&self) -> u16 {
        fred::util::redis_keyslot(self.prefix.as_bytes())
    }

    /// The names for a user's key.
    pub(crate) fn names(&self, key: &Key) -> Result<Names, LockError> {
        let lock = self.lock_name(key)?;
        let fence = make_fence_key(&self.prefix, &lock, LIMITS)?;
        Ok(Names { lock, fence })
    }

    /// The name of a key's lock.
    pub(crate) fn lock_name(&self, key: &Key) -> Result<String, LockError> {
        self.refuse_reserved(key.expose())?;
        make_storage_key(&self.prefix, key.expose(), LIMITS)
    }

    /// The name of a lock id's index entry.
    pub(crate) fn index_name(&self, lock_id: LockId) -> Result<String, LockError> {
        match &self.index_lead {
            Some(lead) => Ok([lead, lock_id.expose()].concat()),
            None => make_storage_key(&self.prefix, &index_key(lock_id.expose()), LIMITS),
        }
    }

    /// What a script puts before a lock id to name its index entry; `None` where it could not.
    pub(crate) fn index_lead(&self) -> Option<&str> {
        self.index_lead.as_deref()
    }

    /// A user's key must not name a fence counter or an index entry.
    fn refuse_reserved(&self, key: &str) -> Result<(), LockError> {
        let is_counter = self.fence_lead.as_ref().is_some_and(|lead| {
            key.strip_prefix(lead.expose()).is_some_and(|counted| !counted.is_empty())
        });
        let is_index = key.strip_prefix("id:").is_some_and(|id| LockId::new(id).is_ok());
        if is_counter || is_index {
            return Err(LockError::invalid_argument(
                "the key is reserved: on Redis it names a fence counter or an index entry of another \
                 lock; keys like \"fence:<prefix>:…\" and \"id:<22 characters>\" are not allowed",
            ));
        }
        Ok(())
    }
}

fn index_key(lock_id: &str) -> String {
    format!("id:{lock_id}")
}

/// Any lock id will do.
const SAMPLE_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// A text as the inside of a JSON string.
pub(crate) fn json_inside(text: &str) -> String {
    if !text.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
        return text.to_owned();
    }
    let mut inside = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => inside.extend(['\\', character]),
            control if control < ' ' => {
                // `String` takes whatever is written.
                let _ = write!(inside, "\\u{:04x}", u32::from(control));
            }
            other => inside.push(other),
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(prefix: &str) -> Layout {
        Layout::new(prefix).unwrap()
    }

    #[test]
    fn exactly_the_names_of_other_records_are_reserved() {
        let id = "F-jSW78sCJhFIV6GYPa1lQ";
        for (prefix, key, allowed) in [
            ("app", "fence:app:x".to_owned(), false),
            ("app:", "fence:app:x".to_owned(), false),
            ("app", "fence:app:".to_owned(), true),
            ("app", "fence:app".to_owned(), true),
            ("app", "fence:other:x".to_owned(), true),
            ("app", "fence:x".to_owned(), true),
            ("app", "xfence:app:x".to_owned(), true),
            ("", "fence:x".to_owned(), false),
            ("", "fence:".to_owned(), true),
            ("cafe\u{301}", "fence:caf\u{e9}:x".to_owned(), false),
            ("app", format!("id:{id}"), false),
            ("app", format!("id:{id}x"), true),
            ("app", format!("id:{}", &id[1..]), true),
            ("app", format!("id:{}!", &id[1..]), true),
            ("app", format!("app:id:{id}"), true),
        ] {
            let key = Key::new(&key).unwrap();
            let result = layout(prefix).lock_name(&key);
            assert_eq!(result.is_ok(), allowed, "{prefix} {}", key.expose());
        }
    }

    #[test]
    fn a_reserved_key_is_another_records_name_and_no_other_key_is() {
        let layout = layout("app");
        let names = layout.names(&Key::new("x").unwrap()).unwrap();
        let counter = make_storage_key("app", "fence:app:x", LIMITS).unwrap();
        assert_eq!(names.fence, counter);
    }

    #[test]
    fn prefixes_that_could_name_counters_are_refused() {
        for prefix in ["fence", "app:fence", "fence:", "app:fence:x", "defence"] {
            assert!(Layout::new(prefix).is_err(), "{prefix}");
        }
        for prefix in ["", "app", "fences", "app:", "{app}"] {
            assert!(Layout::new(prefix).is_ok(), "{prefix}");
        }
        assert!(Layout::new(&"p".repeat(980)).is_err());
    }

    #[test]
    fn a_tag_is_what_redis_takes_for_one() {
        for (prefix, tagged) in [
            ("{app}", true),
            ("x{app}y", true),
            ("app", false),
            ("{}", false),
            ("{}{app}", false),
            ("{app", false),
            ("}{", false),
        ] {
            assert_eq!(layout(prefix).is_tagged(), tagged, "{prefix}");
        }
        let tagged = layout("{app}:locks");
        let slot = |name: &[u8]| fred::util::redis_keyslot(name);
        let names = tagged.names(&Key::new("a{b}c").unwrap()).unwrap();
        assert_eq!(slot(names.lock.as_bytes()), tagged.slot());
        assert_eq!(slot(names.fence.as_bytes()), tagged.slot());
        let index = tagged.index_name(LockId::generate().unwrap()).unwrap();
        assert_eq!(slot(index.as_bytes()), tagged.slot());
    }

    #[test]
    fn a_long_prefix_hashes_its_index_entries() {
        let long = layout(&"p".repeat(950));
        let id = LockId::generate().unwrap();
        assert!(long.index_lead().is_none());
        let name = long.index_name(id).unwrap();
        assert_eq!(name.len(), 950 + 1 + 22);
        assert!(!name.ends_with(id.expose()));
    }

    #[test]
    fn json_is_escaped_where_it_must_be() {
        assert_eq!(json_inside("a/b é\u{7f}"), "a/b é\u{7f}");
        assert_eq!(json_inside("\"\\\n\u{1}"), "\\\"\\\\\\u000a\\u0001");
    }
}
