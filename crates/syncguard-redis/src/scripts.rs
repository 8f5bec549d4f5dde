//! The scripts, one for each operation.

use std::sync::LazyLock;

use fred::types::scripts::Script;

use crate::driver::Call;

/// A script in parts. The usual case comes before the functions that read records, so that it does not make them.
macro_rules! script {
    ($($part:literal),+) => {
        LazyLock::new(|| Script::from_lua(concat!($(include_str!(concat!("lua/", $part, ".lua"))),+)))
    };
}

pub(crate) static ACQUIRE: LazyLock<Script> = script!("time", "acquire_usual", "record", "acquire");
pub(crate) static RELEASE: LazyLock<Script> = script!("time", "release_usual", "record", "release");
pub(crate) static EXTEND: LazyLock<Script> = script!("time", "extend_usual", "record", "extend");
pub(crate) static IS_LOCKED: LazyLock<Script> = script!("time", "record", "is_locked");
static LOOKUP_BY_KEY: LazyLock<Script> = script!("time", "record", "lookup", "lookup_by_key");
pub(crate) static LOOKUP_BY_ID: LazyLock<Script> =
    script!("time", "record", "lookup", "lookup_by_id");
pub(crate) static LIST_LOCKS: LazyLock<Script> = script!("time", "record", "lookup", "list_locks");
pub(crate) static COUNTERS: LazyLock<Script> = script!("record", "counters");
pub(crate) static RAISE_COUNTER: LazyLock<Script> = script!("record", "raise_counter");

/// Reads the live lock of the record with this name.
pub(crate) fn lookup_by_key(name: &str) -> Call {
    Call::new(&LOOKUP_BY_KEY).keys([name])
}
