//! The backend's statements: how they are recognized, their parameters, and the columns of their rows.

use super::array;
use super::session::{Begun, Column};

/// A statement, by parts of its text.
#[derive(Debug)]
pub(super) struct Kind {
    name: Name,
    marks: &'static [&'static str],
    pub(super) columns: &'static [(&'static str, Column)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Settle,
    AcquireUsual,
    Acquire,
    Extend,
    ExtendMany,
    ReleaseCounted,
    ReleaseUsual,
    Release,
    Raise,
    Counter,
    ByKey,
    ById,
    Watch,
    Poll,
    Listener,
    Durability,
    Time,
}

use Column::{Bool, Bools, Number, Numbers, Short, Text, Texts};

/// The columns of a record, the time, and the holder.
const LOOK_UP: &[(&str, Column)] = &[
    ("key", Text),
    ("lock_id", Text),
    ("expires_at_ms", Number),
    ("acquired_at_ms", Number),
    ("fence", Text),
    ("user_key", Text),
    ("now_ms", Number),
    ("holder", Text),
];

const RELEASE: &[(&str, Column)] = &[
    ("released", Bool),
    ("key", Text),
    ("lock_id", Text),
    ("expires_at_ms", Number),
    ("acquired_at_ms", Number),
    ("fence", Text),
    ("user_key", Text),
    ("now_ms", Number),
    ("judged_at_ms", Number),
    ("asked", Text),
];

const COUNTER: &[(&str, Column)] = &[("fence", Number)];

static KINDS: [Kind; 17] = [
    Kind {
        name: Name::Settle,
        marks: &["AS alone"],
        columns: &[("alone", Bool), ("released", Bool), ("answered_ms", Number), ("asked", Text)],
    },
    Kind {
        name: Name::AcquireUsual,
        marks: &["ON CONFLICT (key) DO NOTHING"],
        columns: &[
            ("taken_expires_at_ms", Number),
            ("taken_fence", Text),
            ("judged_at_ms", Number),
            ("asked", Text),
        ],
    },
    Kind {
        name: Name::Acquire,
        marks: &["numbered AS"],
        columns: &[
            ("taken_expires_at_ms", Number),
            ("taken_fence", Text),
            ("counter", Number),
            ("obstacle", Text),
            ("key", Text),
            ("lock_id", Text),
            ("expires_at_ms", Number),
            ("acquired_at_ms", Number),
            ("fence", Text),
            ("user_key", Text),
            ("now_ms", Number),
            ("holder", Text),
            ("judged_at_ms", Number),
            ("asked", Text),
        ],
    },
    Kind {
        name: Name::ExtendMany,
        marks: &["SKIP LOCKED"],
        columns: &[("extended_expires_at_ms", Number), ("judged_at_ms", Number), ("asked", Text)],
    },
    Kind {
        name: Name::Extend,
        marks: &["extended AS"],
        columns: &[
            ("extended_expires_at_ms", Number),
            ("held_expires_at_ms", Number),
            ("key", Text),
            ("lock_id", Text),
            ("expires_at_ms", Number),
            ("acquired_at_ms", Number),
            ("fence", Text),
            ("user_key", Text),
            ("now_ms", Number),
            ("judged_at_ms", Number),
            ("asked", Text),
        ],
    },
    Kind { name: Name::ReleaseCounted, marks: &["released AS", "raised AS"], columns: RELEASE },
    Kind { name: Name::Release, marks: &["released AS"], columns: RELEASE },
    Kind {
        name: Name::ReleaseUsual,
        marks: &["AS released, NULL::pg_catalog.text AS key"],
        columns: &[("released", Bool), ("key", Text), ("judged_at_ms", Number), ("asked", Text)],
    },
    Kind { name: Name::Raise, marks: &["greatest(c.fence, excluded.fence)"], columns: COUNTER },
    Kind { name: Name::Counter, marks: &["SELECT c.fence, "], columns: COUNTER },
    Kind {
        name: Name::ByKey,
        marks: &["AS holder FROM", "WHERE l.key OPERATOR(pg_catalog.=) $1"],
        columns: LOOK_UP,
    },
    Kind {
        name: Name::ById,
        marks: &["AS holder FROM", "WHERE l.lock_id OPERATOR(pg_catalog.=) $1"],
        columns: LOOK_UP,
    },
    Kind {
        name: Name::Watch,
        marks: &["pg_try_advisory_lock_shared"],
        columns: &[
            ("table_oid", Number),
            ("unwatched", Number),
            ("numbers", Numbers),
            ("are_watched", Bools),
        ],
    },
    Kind { name: Name::Poll, marks: &["AS free"], columns: &[("free", Text)] },
    Kind {
        name: Name::Listener,
        marks: &["max_locks_per_transaction"],
        columns: &[("process", Short), ("table_oid", Number), ("sees", Bool), ("room", Number)],
    },
    Kind {
        name: Name::Durability,
        marks: &["full_page_writes"],
        columns: &[
            ("is_in_recovery", Bool),
            ("fsync", Text),
            ("full_page_writes", Text),
            ("locks_persistence", Text),
            ("fences_persistence", Text),
            ("open_schema", Text),
            ("lacks_holders", Bool),
            ("superfluous_index", Text),
            ("hazards", Texts),
            ("state", Text),
            ("place", Text),
            ("owner", Text),
            ("role", Text),
        ],
    },
    Kind { name: Name::Time, marks: &["AS answered_ms"], columns: &[("answered_ms", Number)] },
];

impl Kind {
    /// # Panics
    ///
    /// If no statement has this text: then the simulation does not know what it does.
    pub(super) fn of(sql: &str) -> &'static Self {
        let is_it = |kind: &&Self| kind.marks.iter().all(|mark| sql.contains(mark));
        KINDS.iter().find(is_it).unwrap_or_else(|| panic!("an unknown statement: {sql}"))
    }
}

/// A statement with its parameters. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(super) enum Statement {
    Acquire(Acquire),
    Extend { id: String, ttl: i64, expected: Option<i64>, deadline: i64 },
    ExtendMany { asked: Vec<Asked>, deadline: i64 },
    Release { id: String, raises: Option<Raises>, is_usual: bool, deadline: i64 },
    Settle { id: String, key: String },
    Raise { counter: String, at_least: i64 },
    Counter { counter: String },
    ByKey { key: String },
    ById { id: String },
    Watch { keys: Vec<String>, unwatched: Vec<i64> },
    Poll { keys: Vec<String> },
    Listener,
    Durability,
    Time,
}

/// A lock id, its TTL, and the expiry that it must have.
pub(super) type Asked = (String, i64, i64);

/// The key and the counter that a release raises, and the least value.
pub(super) type Raises = (String, String, i64);

#[derive(Clone, Debug)]
pub(super) struct Acquire {
    /// `acquire_usual.sql`, which writes only if the key has a counter and no lock.
    pub(super) is_usual: bool,
    pub(super) id: String,
    pub(super) key: String,
    pub(super) counter: String,
    pub(super) user_key: String,
    pub(super) ttl: i64,
    pub(super) holder: String,
    pub(super) at_least: i64,
    pub(super) below: i64,
    pub(super) not_before: i64,
    pub(super) deadline: i64,
}

impl Statement {
    pub(super) fn of(begun: &Begun) -> Self {
        let bytes = |at: usize| begun.parameters[at].as_deref();
        let text = |at| {
            let bytes = bytes(at).expect("a text").to_vec();
            String::from_utf8(bytes).expect("UTF-8")
        };
        let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().expect("8 bytes"));
        let given = |at| number(bytes(at).expect("a number"));
        let all = |at| array::read(bytes(at).expect("an array")).into_iter();
        let texts = |at| all(at).map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        match begun.kind.name {
            Name::Settle => Self::Settle { id: text(0), key: text(1) },
            Name::Acquire | Name::AcquireUsual => {
                let is_usual = begun.kind.name == Name::AcquireUsual;
                let window =
                    if is_usual { [1, 900_000_000_000_000, 0] } else { [6, 7, 8].map(given) };
                let [at_least, below, not_before] = window;
                Self::Acquire(Acquire {
                    is_usual,
                    id: text(0),
                    key: text(1),
                    counter: text(2),
                    user_key: text(3),
                    ttl: given(4),
                    holder: text(5),
                    at_least,
                    below,
                    not_before,
                    deadline: given(if is_usual { 6 } else { 9 }),
                })
            }
            Name::Extend => Self::Extend {
                id: text(0),
                ttl: given(1),
                expected: bytes(2).map(number),
                deadline: given(3),
            },
            Name::ExtendMany => {
                let numbers = |at| all(at).map(|bytes| number(&bytes));
                let asked = texts(0).zip(numbers(1).zip(numbers(2)));
                Self::ExtendMany {
                    asked: asked.map(|(id, (ttl, expected))| (id, ttl, expected)).collect(),
                    deadline: given(3),
                }
            }
            Name::Release | Name::ReleaseUsual => {
                let is_usual = begun.kind.name == Name::ReleaseUsual;
                Self::Release { id: text(0), raises: None, is_usual, deadline: given(1) }
            }
            Name::ReleaseCounted => {
                let raises = Some((text(1), text(2), given(4)));
                Self::Release { id: text(0), raises, is_usual: false, deadline: given(5) }
            }
            Name::Raise => Self::Raise { counter: text(0), at_least: given(2) },
            Name::Counter => Self::Counter { counter: text(0) },
            Name::ByKey => Self::ByKey { key: text(0) },
            Name::ById => Self::ById { id: text(0) },
            Name::Watch => Self::Watch {
                keys: texts(0).collect(),
                unwatched: all(1).map(|bytes| number(&bytes)).collect(),
            },
            Name::Poll => Self::Poll { keys: texts(0).collect() },
            Name::Listener => Self::Listener,
            Name::Durability => Self::Durability,
            Name::Time => Self::Time,
        }
    }

    /// True if the server refuses it while it refuses writes.
    pub(super) fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Acquire(_)
                | Self::Extend { .. }
                | Self::ExtendMany { .. }
                | Self::Release { .. }
                | Self::Settle { .. }
                | Self::Raise { .. }
        )
    }

    /// The keys of the locks that it may take or wait for, beside that of the row that it finds.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        let keys = match self {
            Self::Acquire(asked) => [Some(&asked.key), Some(&asked.counter)],
            Self::Settle { key, .. } => [Some(key), None],
            Self::Raise { counter, .. } | Self::Release { raises: Some((_, counter, _)), .. } => {
                [Some(counter), None]
            }
            _ => [None, None],
        };
        keys.into_iter().flatten().map(String::as_str)
    }
}
