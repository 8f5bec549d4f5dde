//! The names of the records under one prefix, and the keys and prefixes that would collide with them.

use std::borrow::Cow;
use std::fmt::Write as _;

use syncguard_core::authoring::{StorageKey, StorageLimits, make_fence_key, make_storage_key};
use syncguard_core::inventory::ListRequest;
use syncguard_core::{Key, LockError, LockId, LockInfo};

use crate::driver::Target;
use crate::record_name::{RecordKind, RecordName};

/// Names have up to 1000 bytes, of which 26 are reserved for `:id:` and a lock id. TypeScript:
/// `BACKEND_LIMITS.REDIS` and `RESERVE_BYTES.REDIS`.
const LIMITS: StorageLimits = StorageLimits { limit: 1000, reserve: 26 };

/// A prefix whose records are all on one server: the whole key prefix, or a shard of it.
#[derive(Debug)]
pub(crate) struct Section {
    /// The index of the section in its layout.
    pub(crate) index: usize,
    /// The slot of all names, on a cluster.
    pub(crate) slot: Option<u16>,
    prefix: String,
    /// The start of user keys whose lock would have the name of a fence counter. `None` if no user key is long
    /// enough for that.
    fence_lead: Option<Key>,
    /// The part before the lock id in the name of an index entry. `None` if these names are hashed.
    index_lead: Option<String>,
    /// The parts before a user's key in the names of its records. `None` if some names are hashed.
    leads: Option<Leads>,
}

#[derive(Debug)]
struct Leads {
    lock: String,
    fence: String,
}

/// The names of one lock's records.
pub(crate) struct Names {
    pub(crate) lock: String,
    pub(crate) fence: String,
}

impl Section {
    /// Checks a prefix. On a cluster, it must have a hash tag.
    pub(crate) fn new(prefix: &str, index: usize, clustered: bool) -> Result<Self, LockError> {
        let prefix = prefix.trim_end_matches(':').to_owned();
        if prefix.contains("fence:") || prefix.ends_with("fence") {
            return Err(LockError::invalid_argument(
                "the key prefix contains \"fence:\" or ends in \"fence\", where fence counters are; \
                 any other prefix is allowed",
            ));
        }
        let separator = if prefix.is_empty() { "" } else { ":" };
        let fence_lead = Key::new(format!("fence:{prefix}{separator}")).ok();
        let index_name = make_storage_key(&prefix, &index_key(SAMPLE_ID)?, LIMITS)?;
        let index_lead = index_name.expose().strip_suffix(SAMPLE_ID).map(str::to_owned);
        // Names grow with the key. The counter's name is the longest of a key, unless the lock's name is hashed
        // itself.
        let longest = Key::new("k".repeat(Key::MAX_LENGTH_BYTES))?;
        let lock = make_storage_key(&prefix, &longest, LIMITS)?;
        let fence = make_fence_key(&prefix, &lock, LIMITS)?;
        let lead =
            |name: &StorageKey| name.expose().strip_suffix(longest.expose()).map(str::to_owned);
        let leads = match (lead(&lock), lead(&fence)) {
            (Some(lock_lead), Some(fence_lead)) if fence.expose().ends_with(lock.expose()) => {
                Some(Leads { lock: lock_lead, fence: fence_lead })
            }
            _ => None,
        };
        let slot = clustered.then(|| fred::util::redis_keyslot(prefix.as_bytes()));
        Ok(Self { index, slot, prefix, fence_lead, index_lead, leads })
    }

    /// Returns whether some keys have hashed names.
    pub(crate) fn hashes(&self) -> bool {
        self.leads.is_none() || self.index_lead.is_none()
    }

    /// The target of calls to this section.
    pub(crate) fn target(&self) -> Target {
        Target { section: self.index, slot: self.slot }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The names for a user's key.
    pub(crate) fn names(&self, key: &Key) -> Result<Names, LockError> {
        self.refuse_reserved(key.expose())?;
        if let Some(leads) = &self.leads {
            let name = |lead: &str| [lead, key.expose()].concat();
            return Ok(Names { lock: name(&leads.lock), fence: name(&leads.fence) });
        }
        let lock = make_storage_key(&self.prefix, key, LIMITS)?;
        let fence = make_fence_key(&self.prefix, &lock, LIMITS)?;
        Ok(Names { lock: lock.into_exposed(), fence: fence.into_exposed() })
    }

    /// The name of a key's lock. Reserved keys are allowed.
    pub(crate) fn unchecked_lock_name(&self, key: &Key) -> Result<String, LockError> {
        match &self.leads {
            Some(leads) => Ok([&leads.lock, key.expose()].concat()),
            None => Ok(make_storage_key(&self.prefix, key, LIMITS)?.into_exposed()),
        }
    }

    /// The name of a key's lock.
    pub(crate) fn lock_name(&self, key: &Key) -> Result<String, LockError> {
        self.refuse_reserved(key.expose())?;
        self.unchecked_lock_name(key)
    }

    /// The name of a lock id's index entry.
    pub(crate) fn index_name(&self, lock_id: &LockId) -> Result<String, LockError> {
        match &self.index_lead {
            Some(lead) => Ok([lead, lock_id.expose()].concat()),
            None => {
                let name = index_key(lock_id.expose())?;
                Ok(make_storage_key(&self.prefix, &name, LIMITS)?.into_exposed())
            }
        }
    }

    /// The part that a script puts before a lock id to name its index entry; `None` if these names are hashed.
    pub(crate) fn index_lead(&self) -> Option<&str> {
        self.index_lead.as_deref()
    }

    /// The pattern for `SCAN` in two parts: the start of all names of these records, and the rest. It matches at
    /// least these names.
    pub(crate) fn pattern(&self, kind: RecordKind, prefix: &str) -> [String; 2] {
        let escaped = |text: &str| {
            let mut pattern = String::with_capacity(text.len() + 1);
            for character in text.chars() {
                if matches!(character, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
                    pattern.push('\\');
                }
                pattern.push(character);
            }
            pattern
        };
        // If names are hashed, only the records tell their keys.
        let prefix = if self.leads.is_some() { prefix } else { "" };
        [escaped(&self.lead(kind)), escaped(prefix) + "*"]
    }

    /// A name from `SCAN`, if it belongs to such a record.
    pub(crate) fn record_name(&self, kind: RecordKind, name: &str) -> Option<RecordName> {
        let lead = self.lead(kind);
        let rest = name.strip_prefix(&*lead).filter(|rest| !rest.is_empty())?;
        let is_another = kind == RecordKind::Lock
            && if self.leads.is_some() {
                self.refuse_reserved(rest).is_err()
            } else {
                self.is_reserved(rest)
            };
        (!is_another).then(|| RecordName::new(name, self.index, lead.len()))
    }

    /// Returns whether the key of a lock that a sweep found has the prefix of the request.
    pub(crate) fn has_requested_prefix(
        &self,
        request: &ListRequest,
        record: &RecordName,
        info: &LockInfo,
    ) -> bool {
        if self.leads.is_some() {
            return request.includes(record.user_key());
        }
        request.includes(info.key.expose())
    }

    /// Returns whether this may be the hashed name of a counter or an index entry.
    pub(crate) fn may_be_no_lock(&self, record: &RecordName) -> bool {
        self.hashes() && LockId::new(record.user_key()).is_ok()
    }

    /// Refuses to list counters if names are hashed: a hashed name tells neither its kind of record nor its key.
    pub(crate) fn refuse_hashed_counters(&self) -> Result<(), LockError> {
        if self.leads.is_some() {
            return Ok(());
        }
        Err(LockError::invalid_argument(
            "with a key prefix this long, the names of some counters are hashed, and a listing would not be \
             all there are; with up to 227 bytes, none are",
        ))
    }

    /// The part before the users' keys or their hashes.
    fn lead(&self, kind: RecordKind) -> Cow<'_, str> {
        match (&self.leads, kind) {
            (Some(leads), RecordKind::Lock) => Cow::Borrowed(&leads.lock),
            (Some(leads), RecordKind::Counter) => Cow::Borrowed(&leads.fence),
            (None, _) => Cow::Owned([&self.prefix, ":"].concat()),
        }
    }

    /// Refuses a key whose lock would have the name of a fence counter, an index entry or another key's lock.
    fn refuse_reserved(&self, key: &str) -> Result<(), LockError> {
        if self.is_reserved(key) {
            return Err(LockError::invalid_argument(
                "the key is reserved: on Redis it names a fence counter or an index entry of another \
                 lock; keys like \"fence:<prefix>:…\" and \"id:<22 characters>\" are not allowed",
            ));
        }
        // A hash has 22 base64url characters, like a lock id.
        if self.hashes() && LockId::new(key).is_ok() {
            return Err(LockError::invalid_argument(
                "the key is reserved: with a key prefix this long, some names on Redis are hashed, and 22 \
                 characters of A-Z a-z 0-9 - _ could be such a name; make the key longer or shorter, or \
                 the prefix 227 bytes at most",
            ));
        }
        Ok(())
    }

    fn is_reserved(&self, key: &str) -> bool {
        let is_counter = self.fence_lead.as_ref().is_some_and(|lead| {
            key.strip_prefix(lead.expose()).is_some_and(|counted| !counted.is_empty())
        });
        let is_index = key.strip_prefix("id:").is_some_and(|id| LockId::new(id).is_ok());
        is_counter || is_index
    }
}

fn index_key(lock_id: &str) -> Result<Key, LockError> {
    Key::new(format!("id:{lock_id}"))
}

/// An arbitrary lock id.
const SAMPLE_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// The head of a lock's record: all before the digits of its fence. Without the key, no record begins with it.
pub(crate) fn head(key: Option<&Key>, lock_id: LockId) -> String {
    let key = json_inside(key.map_or("", Key::expose));
    ["{\"key\":\"", &key, "\",\"lockId\":\"", lock_id.expose(), "\",\"fence\":\""].concat()
}

/// Escapes a text for the inside of a JSON string.
pub(crate) fn json_inside(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
        return text.into();
    }
    let mut inside = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => inside.extend(['\\', character]),
            control if control < ' ' => {
                // Writing to a `String` cannot fail.
                let _ = write!(inside, "\\u{:04x}", u32::from(control));
            }
            other => inside.push(other),
        }
    }
    inside.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(prefix: &str) -> Section {
        Section::new(prefix, 0, false).unwrap()
    }

    /// The names of a key's lock and of its counter.
    fn names(layout: &Section, key: &str) -> (String, String) {
        let key = Key::new(key).unwrap();
        let Names { lock, fence } = layout.names(&key).unwrap();
        (lock, fence)
    }

    #[test]
    fn names_are_those_of_the_rule_whether_or_not_some_are_hashed() {
        let long = "p".repeat(228);
        let keys = ["x", "a:b", "e\u{301}", "\u{301}e", "\u{338}", "=", &"k".repeat(512)];
        for prefix in ["", "app", "a:b:", "caf\u{e9}", "cafe\u{301}", "{app}", "=", &long] {
            let layout = layout(prefix);
            for key in keys {
                let stored = make_storage_key(prefix, &Key::new(key).unwrap(), LIMITS).unwrap();
                let counter = make_fence_key(prefix, &stored, LIMITS).unwrap();
                let expected = (stored.into_exposed(), counter.into_exposed());
                assert_eq!(names(&layout, key), expected, "{prefix} {key}");
            }
        }
        assert!(layout("app").leads.is_some());
        assert!(layout(&long).leads.is_none());
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

    /// The hashes of `<prefix>:fence:<lock>`, `<prefix>:<key>` and `<prefix>:id:<lock id>` have the form of
    /// these keys.
    #[test]
    fn keys_that_look_like_a_hash_are_reserved_where_names_are_hashed() {
        let hashes = ["F-jSW78sCJhFIV6GYPa1lQ", "0123456789012345678901", "______________________"];
        let others = [
            "F-jSW78sCJhFIV6GYPa1l",
            "F-jSW78sCJhFIV6GYPa1lQQ",
            "F+jSW78sCJhFIV6GYPa1lQ",
            "F-jSW78sCJhFIV6GYPa1l=",
            "F-jSW78sCJhFIV6GYPa1l\u{e9}",
            "xF-jSW78sCJhFIV6GYPa1lQ",
            "F-jSW78sCJhFIV6GYPa1lQ:",
        ];
        // The counter of the longest key: twice 227 bytes and a colon, `fence:`, 512 bytes and the 26 reserved
        // bytes are 1000.
        for (length, hashed) in [(1, false), (227, false), (228, true), (951, true)] {
            let layout = layout(&"p".repeat(length));
            let (lock, fence) = names(&layout, &"k".repeat(Key::MAX_LENGTH_BYTES));
            let readable = format!("{}:fence:{lock}", layout.prefix());
            assert_eq!(fence != readable, hashed, "{length}: the counter of the longest key");
            for key in hashes {
                let result = layout.lock_name(&Key::new(key).unwrap());
                assert_eq!(result.is_err(), hashed, "{length} {key}");
                if let Err(error) = result {
                    assert!(error.message().contains("227 bytes"), "{error}");
                }
            }
            for key in others {
                assert!(layout.lock_name(&Key::new(key).unwrap()).is_ok(), "{length} {key}");
            }
        }
        assert!(layout("").lock_name(&Key::new(hashes[0]).unwrap()).is_ok());
    }

    /// The reason: the two would share a record.
    #[test]
    fn a_hashed_counter_has_the_name_of_such_a_keys_lock() {
        let layout = layout(&"p".repeat(300));
        let (_, fence) = names(&layout, &"k".repeat(500));
        let hash = fence.strip_prefix(&format!("{}:", layout.prefix())).unwrap();
        let hash = Key::new(hash).unwrap();
        let lock = make_storage_key(layout.prefix(), &hash, LIMITS).unwrap();
        assert_eq!(lock.expose(), fence);
        assert!(layout.lock_name(&hash).is_err());
    }

    /// The documentation of `with_key_prefix` warns of this. The names are those of the TypeScript library.
    #[test]
    fn a_prefix_within_another_shares_its_locks_and_not_its_counters() {
        let (lock, fence) = names(&layout("app"), "billing:7");
        let (inner_lock, inner_fence) = names(&layout("app:billing"), "7");
        assert_eq!(lock, inner_lock);
        assert_ne!(fence, inner_fence);
        assert_ne!(lock, names(&layout("app-billing"), "7").0);
        let warning = "beginning of another";
        assert!(include_str!("config.rs").contains(warning));
        assert!(include_str!("backend.rs").contains(warning));
    }

    #[test]
    fn prefixes_that_could_name_counters_are_refused() {
        for prefix in ["fence", "app:fence", "fence:", "app:fence:x", "defence"] {
            assert!(Section::new(prefix, 0, false).is_err(), "{prefix}");
        }
        for prefix in ["", "app", "fences", "app:", "{app}"] {
            assert!(Section::new(prefix, 0, false).is_ok(), "{prefix}");
        }
        assert!(Section::new(&"p".repeat(980), 0, false).is_err());
    }

    #[test]
    fn all_names_under_a_tag_are_in_one_slot() {
        let tagged = Section::new("{app}:locks", 0, true).unwrap();
        let slot = |name: &str| Some(fred::util::redis_keyslot(name.as_bytes()));
        let (lock, fence) = names(&tagged, "a{b}c");
        assert_eq!(slot(&lock), tagged.slot);
        assert_eq!(slot(&fence), tagged.slot);
        let id = LockId::generate().unwrap();
        let index = tagged.index_name(&id).unwrap();
        assert_eq!(slot(&index), tagged.slot);
    }

    #[test]
    fn a_long_prefix_hashes_its_index_entries() {
        let long = layout(&"p".repeat(950));
        let id = LockId::generate().unwrap();
        assert!(long.index_lead().is_none());
        let name = long.index_name(&id).unwrap();
        assert_eq!(name.len(), 950 + 1 + 22);
        assert!(!name.ends_with(id.expose()));
    }

    #[test]
    fn json_is_escaped_where_it_must_be() {
        assert_eq!(json_inside("a/b é\u{7f}"), "a/b é\u{7f}");
        assert_eq!(json_inside("\"\\\n\u{1}"), "\\\"\\\\\\u000a\\u0001");
    }
}
