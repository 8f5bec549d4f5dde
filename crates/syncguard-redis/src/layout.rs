//! How the locks of a prefix spread over a cluster.

use std::fmt;

use sha2::{Digest, Sha256};
use syncguard_core::{Key, LockError};

use crate::names::Section;
use crate::record_name::{RecordKind, RecordName};

/// How the locks of a key prefix spread over the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyLayout {
    /// One server has all locks: the server of a client without a cluster, or the node that has the slot of a
    /// tagged prefix.
    OneServer,
    /// The locks are in shards with a slot each: a cluster with an untagged prefix.
    Sharded {
        /// The number of shards, always 64.
        shards: usize,
    },
}

/// The sections of a prefix: one, or one for each shard.
pub(crate) struct Layout {
    /// The section of the whole prefix, as without shards.
    whole: Section,
    /// Empty without shards.
    shards: Box<[Section]>,
}

impl Layout {
    /// Never change this number: most locks would be in another shard, and their counters would start anew.
    pub(crate) const SHARDS: usize = 64;

    /// Checks a prefix and lays it out.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a prefix that could name other records or is too long, and on a cluster for a prefix
    /// with a brace but no hash tag.
    pub(crate) fn new(prefix: &str, clustered: bool) -> Result<Self, LockError> {
        let whole = Section::new(prefix, 0, clustered)?;
        let prefix = whole.prefix();
        if !clustered || is_tagged(prefix) {
            return Ok(Self { whole, shards: Box::default() });
        }
        if prefix.contains(['{', '}']) {
            return Err(LockError::invalid_argument(
                "the key prefix has a brace and no hash tag; on a Redis cluster a prefix without braces, or \
                 one with a hash tag as in {app}, is allowed",
            ));
        }
        let shard = |index| Section::new(&shard_prefix(prefix, index), index, true);
        let shards = (0..Self::SHARDS).map(shard).collect::<Result<_, _>>()?;
        Ok(Self { whole, shards })
    }

    pub(crate) fn prefix(&self) -> &str {
        self.whole.prefix()
    }

    /// The beginning of the names of all records.
    pub(crate) fn lead(&self) -> String {
        match (self.shards.is_empty(), self.prefix()) {
            (true, "") => String::new(),
            (true, prefix) => format!("{prefix}:"),
            (false, prefix) => format!("{{{prefix}:"),
        }
    }

    /// The sections: one, or one for each shard.
    pub(crate) fn sections(&self) -> &[Section] {
        if self.shards.is_empty() { std::slice::from_ref(&self.whole) } else { &self.shards }
    }

    /// The section that has the lock of a key.
    pub(crate) fn section_of(&self, key: &Key) -> Result<&Section, LockError> {
        if self.shards.is_empty() {
            return Ok(&self.whole);
        }
        let name = self.whole.unchecked_lock_name(key)?;
        let shard = usize::from(Sha256::digest(&name)[0]) % Self::SHARDS;
        Ok(self.shards.get(shard).unwrap_or(&self.whole))
    }

    /// The only section, or the section of the hint; `None` if the lock may be in any section.
    pub(crate) fn likely(&self, hint: Option<&Key>) -> Option<&Section> {
        if self.shards.is_empty() {
            return Some(&self.whole);
        }
        self.section_of(hint?).ok()
    }

    /// The pattern for `SCAN`. It matches at least the names of these records.
    pub(crate) fn pattern(&self, kind: RecordKind, prefix: &str) -> String {
        let Some(shard) = self.shards.first() else {
            return self.whole.pattern(kind, prefix).concat();
        };
        let [lead, rest] = shard.pattern(kind, prefix);
        // The prefix has no brace, so this replaces the number of the shard.
        lead.replace(":00}", ":??}") + &rest
    }

    /// A name from `SCAN`, if it belongs to such a record.
    pub(crate) fn record_name(&self, kind: RecordKind, name: &str) -> Option<RecordName> {
        if self.shards.is_empty() {
            return self.whole.record_name(kind, name);
        }
        let rest = name.strip_prefix('{')?.strip_prefix(self.prefix())?.strip_prefix(':')?;
        let shard = self.shards.get(rest.get(..2)?.parse::<usize>().ok()?)?;
        let record = shard.record_name(kind, name)?;
        // No operation looks for a record in another shard than its own. A hashed name does not tell its shard.
        let is_own = |key: &Key| self.section_of(key).is_ok_and(|own| own.index == shard.index);
        let is_misplaced =
            !shard.hashes() && !Key::new(record.user_key()).is_ok_and(|key| is_own(&key));
        (!is_misplaced).then_some(record)
    }

    /// The section of a record that a sweep found.
    pub(crate) fn section_of_record(&self, record: &RecordName) -> &Section {
        self.sections().get(record.section).unwrap_or(&self.whole)
    }

    /// Returns whether all records are in one slot on every cluster.
    pub(crate) fn is_tagged(&self) -> bool {
        is_tagged(self.prefix())
    }

    pub(crate) fn kind(&self) -> KeyLayout {
        match self.shards.len() {
            0 => KeyLayout::OneServer,
            shards => KeyLayout::Sharded { shards },
        }
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("prefix", &self.prefix())
            .field("kind", &self.kind())
            .finish()
    }
}

/// The prefix of a shard's names, such as `{app:07}` for `app`.
fn shard_prefix(prefix: &str, shard: usize) -> String {
    format!("{{{prefix}:{shard:02}}}")
}

/// Returns whether the prefix has a hash tag `{…}`, which puts all names into one slot of a cluster.
fn is_tagged(prefix: &str) -> bool {
    prefix
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .is_some_and(|(tag, _)| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use syncguard_core::LockId;

    use super::*;

    fn sharded(prefix: &str) -> Layout {
        Layout::new(prefix, true).unwrap()
    }

    /// The file defines the layout. `tests/fixtures/shards.py` made it, independently of this code.
    #[test]
    fn shards_and_names_are_those_of_the_vectors() {
        let mut seen = 0;
        for line in include_str!("../tests/fixtures/shards.tsv").lines() {
            if line.starts_with('#') {
                continue;
            }
            let fields: Vec<_> = line.split('\t').collect();
            let [prefix, key, shard, slot, lock, fence, index] = fields[..] else {
                panic!("not seven fields: {line}");
            };
            let (layout, key) = (sharded(prefix), Key::new(key).unwrap());
            let section = layout.section_of(&key).unwrap();
            assert_eq!(section.index.to_string(), shard, "{line}");
            assert_eq!(section.slot.map(|slot| slot.to_string()).as_deref(), Some(slot), "{line}");
            let names = section.names(&key).unwrap();
            assert_eq!(names.lock, lock);
            assert_eq!(names.fence, fence);
            let id = LockId::new("F-jSW78sCJhFIV6GYPa1lQ").unwrap();
            assert_eq!(section.index_name(&id).unwrap(), index);
            seen += 1;
        }
        assert!(seen > 20, "{seen} vectors");
    }

    #[test]
    fn all_records_of_a_lock_are_in_the_slot_of_its_shard() {
        let layout = sharded("app");
        assert_eq!(layout.sections().len(), 64);
        let slots: HashSet<_> = layout.sections().iter().map(|section| section.slot).collect();
        assert_eq!(slots.len(), 64, "each shard has its own slot");
        for text in ["k", "a{b}c", "{x}", "}{", "fence:app:k", "fence:{app:01}:k"] {
            let key = Key::new(text).unwrap();
            let section = layout.section_of(&key).unwrap();
            let slot = |name: &str| Some(fred::util::redis_keyslot(name.as_bytes()));
            let names = section.names(&key).unwrap();
            for name in [names.lock, names.fence] {
                assert_eq!(slot(&name), section.slot, "{text}");
            }
        }
    }

    /// A hash decides, so a pattern in the keys does not crowd a shard.
    #[test]
    fn keys_spread_evenly_over_the_shards() {
        let layout = sharded("syncguard");
        for pattern in ["job:", "payment:2026-07-14:", "{tenant}:"] {
            let mut counts = [0_u32; Layout::SHARDS];
            for number in 0..64_000 {
                let key = Key::new(format!("{pattern}{number}")).unwrap();
                counts[layout.section_of(&key).unwrap().index] += 1;
            }
            // 1000 each; six standard deviations.
            assert!(counts.iter().all(|count| (810..1190).contains(count)), "{pattern} {counts:?}");
        }
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
            assert_eq!(is_tagged(prefix), tagged, "{prefix}");
        }
    }

    #[test]
    fn only_a_cluster_with_an_untagged_prefix_has_shards() {
        for (prefix, clustered, kind) in [
            ("app", true, Some(KeyLayout::Sharded { shards: 64 })),
            ("app:", true, Some(KeyLayout::Sharded { shards: 64 })),
            ("", true, Some(KeyLayout::Sharded { shards: 64 })),
            ("{app}", true, Some(KeyLayout::OneServer)),
            ("x{app}y", true, Some(KeyLayout::OneServer)),
            // A brace would become part of the tags, and could end them before their number.
            ("{}", true, None),
            ("{app", true, None),
            ("app}", true, None),
            ("app", false, Some(KeyLayout::OneServer)),
            ("{}", false, Some(KeyLayout::OneServer)),
            ("app}", false, Some(KeyLayout::OneServer)),
        ] {
            let layout = Layout::new(prefix, clustered).ok().map(|layout| layout.kind());
            assert_eq!(layout, kind, "{prefix} {clustered}");
        }
    }
}
