//! The scripts, one for each operation.

use std::sync::LazyLock;

use fred::types::scripts::Script;

use crate::driver::Call;

/// A script after the functions that all scripts share.
macro_rules! script {
    ($file:literal) => {
        LazyLock::new(|| {
            Script::from_lua(concat!(include_str!("lua/record.lua"), include_str!($file)))
        })
    };
}

pub(crate) static ACQUIRE: LazyLock<Script> = script!("lua/acquire.lua");
pub(crate) static RELEASE: LazyLock<Script> = script!("lua/release.lua");
pub(crate) static EXTEND: LazyLock<Script> = script!("lua/extend.lua");
pub(crate) static IS_LOCKED: LazyLock<Script> = script!("lua/is_locked.lua");
static LOOKUP_BY_KEY: LazyLock<Script> = script!("lua/lookup_by_key.lua");
pub(crate) static LOOKUP_BY_ID: LazyLock<Script> = script!("lua/lookup_by_id.lua");
pub(crate) static LIST_LOCKS: LazyLock<Script> = script!("lua/list_locks.lua");
pub(crate) static COUNTERS: LazyLock<Script> = script!("lua/counters.lua");
pub(crate) static RAISE_COUNTER: LazyLock<Script> = script!("lua/raise_counter.lua");

/// Reads the live lock of the record with this name.
pub(crate) fn lookup_by_key(name: &str) -> Call {
    Call { script: &LOOKUP_BY_KEY, keys: vec![name.into()], arguments: Vec::new() }
}
