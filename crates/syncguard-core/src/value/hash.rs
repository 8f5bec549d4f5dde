//! Identifiers that are safe to print: hashes of keys and lock ids.

use std::fmt;

use sha2::{Digest, Sha256};

use super::normalize::nfc;

/// A 96-bit hash of a key or a lock id, shown as 24 lowercase hex digits.
///
/// Logs, spans, [`LockInfo`](crate::LockInfo) and telemetry carry the hash instead of the raw text. It
/// correlates events; it does not hide a key that can be guessed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HashId(pub(super) [u8; 12]);

/// The hash of any text: the first 12 bytes of the SHA-256 of its NFC form.
///
/// TypeScript: `hashKey`. Never fails, and allocates only for text that is not ASCII. At a shell, for a key
/// in NFC: `printf %s KEY | sha256sum | cut -c1-24`.
///
/// ```
/// assert_eq!(syncguard_core::authoring::hash_key("resource:123").to_string(), "f52f328d6111ae89dbcfcb99");
/// ```
#[must_use]
pub fn hash_key(text: &str) -> HashId {
    let digest = Sha256::digest(nfc(text).as_bytes());
    let mut hash = [0; 12];
    hash.copy_from_slice(&digest[..12]);
    HashId(hash)
}

/// The hash that TypeScript services put into their telemetry: three 32-bit polynomials.
///
/// Use it only to match the events of a mixed fleet. It gives short texts away (`"a"` hashes to
/// `00000061…`) and keeps about 32 bits of a lock id. For everything else use [`hash_key`].
///
/// ```
/// assert_eq!(syncguard_core::authoring::hash_key_triple32("a").to_string(), "0000006100000123000002a7");
/// ```
#[must_use]
pub fn hash_key_triple32(text: &str) -> HashId {
    const MULTIPLIERS: [u32; 3] = [31, 127, 2047];
    const WEIGHTS: [u32; 3] = [1, 3, 7];
    let mut sums = [0_u32; 3];
    // JavaScript walks UTF-16 code units.
    for unit in nfc(text).encode_utf16() {
        for (sum, (multiplier, weight)) in sums.iter_mut().zip(MULTIPLIERS.iter().zip(WEIGHTS)) {
            *sum = sum.wrapping_mul(*multiplier).wrapping_add(u32::from(unit).wrapping_mul(weight));
        }
    }
    let mut hash = [0; 12];
    for (bytes, sum) in hash.chunks_exact_mut(4).zip(sums) {
        bytes.copy_from_slice(&sum.to_be_bytes());
    }
    HashId(hash)
}

impl fmt::Display for HashId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for HashId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{self}")
    }
}

#[cfg(feature = "serde")]
super::serde_form::as_text!(HashId, "24 lowercase hex digits");
