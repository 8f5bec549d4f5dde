//! The keys of the gate and the slots, and the number of slots that the gate remembers.

use syncguard_core::contract::FenceToken;
use syncguard_core::{Fence, Key, LockError};

const MAX_SLOTS: u32 = 64;

const INFIX: &str = ":rw:";

/// The longest key: that of the gate must still be a key.
const MAX_KEY_BYTES: usize = Key::MAX_LENGTH_BYTES - INFIX.len() - "gate".len();

/// The gate's counter is the largest number of slots that any reader announced, times this, and the acquisitions since. It
/// stays below the counters of ticks, which operators treat otherwise; after so many acquisitions, writers take a slot more.
const PER_SLOT: u64 = 10_000_000_000;

pub(super) fn check(key: &Key, slots: u32) -> Result<(), LockError> {
    let length = key.expose().len();
    let what = if length > MAX_KEY_BYTES {
        format!(
            "the key of a read/write lock has {length} bytes; at most {MAX_KEY_BYTES} are allowed"
        )
    } else if !(1..=MAX_SLOTS).contains(&slots) {
        format!("{slots} processes that read at a time; 1 to {MAX_SLOTS} are allowed")
    } else {
        return Ok(());
    };
    Err(LockError::invalid_argument(what).with_key(key))
}

pub(super) fn gate(key: &Key) -> Result<Key, LockError> {
    Key::new(format!("{}{INFIX}gate", key.expose()))
}

pub(super) fn slot(key: &Key, slot: u32) -> Result<Key, LockError> {
    Key::new(format!("{}{INFIX}{slot}", key.expose()))
}

/// The number of slots that readers have announced before this acquisition of the gate; `None` without fences.
pub(super) fn announced(gate: impl FenceToken) -> Option<u32> {
    let slots = gate.fence()?.get() / PER_SLOT;
    Some(u32::try_from(slots).unwrap_or(MAX_SLOTS).min(MAX_SLOTS))
}

/// The counter of the gate that announces this number of slots.
pub(super) fn announcing(slots: u32) -> Result<Fence, LockError> {
    Fence::new(u64::from(slots) * PER_SLOT)
}
