//! The keys of slots.

use syncguard_core::{Key, LockError};

/// Stands between the key of the semaphore and the number of the slot.
const INFIX: &str = ":permit:";

/// The most permits a semaphore may have.
pub(super) const MAX_PERMITS: u32 = 1024;

/// The longest key of a semaphore: the infix and four digits must still fit a key.
pub(super) const MAX_KEY_BYTES: usize = Key::MAX_LENGTH_BYTES - INFIX.len() - 4;

pub(super) fn check_length(key: &Key) -> Result<(), LockError> {
    let length = key.expose().len();
    if length > MAX_KEY_BYTES {
        return Err(LockError::invalid_argument(format!(
            "the key of the semaphore has {length} bytes; at most {MAX_KEY_BYTES} are allowed"
        ))
        .with_key(key));
    }
    Ok(())
}

/// The normalised key, `:permit:`, and the number in decimal without leading zeros.
pub(super) fn of_slot(key: &Key, slot: u32) -> Result<Key, LockError> {
    Key::new(format!("{}{INFIX}{slot}", key.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_slots_are_as_documented_and_fit() {
        let key = Key::new("cafe\u{301}").unwrap();
        assert_eq!(of_slot(&key, 0).unwrap().expose(), "caf\u{e9}:permit:0");
        let longest = Key::new("k".repeat(MAX_KEY_BYTES)).unwrap();
        check_length(&longest).unwrap();
        let last = of_slot(&longest, MAX_PERMITS - 1).unwrap();
        assert_eq!(last.expose().len(), 512);
        assert!(check_length(&Key::new("k".repeat(MAX_KEY_BYTES + 1)).unwrap()).is_err());
    }
}
