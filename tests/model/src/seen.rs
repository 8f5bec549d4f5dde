//! The visited worlds, with 64 bits for each.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "fingerprints are made of the lower halves of products"
)]

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const SHARDS: usize = 256;

/// A set of fingerprints that grows in small steps, so that it never needs twice its memory.
///
/// Two of `n` worlds share a fingerprint with a probability of about `n² / 2⁶⁵`; then one of them is not visited. For
/// 100 million worlds that is 1 in 3 700.
pub(crate) struct Seen {
    shards: Vec<Mutex<Shard>>,
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    /// Zero means empty.
    slots: Vec<u64>,
    len: usize,
}

impl Seen {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, bytes: AtomicUsize::new(0) }
    }

    /// Returns true if the fingerprint is new.
    pub(crate) fn insert(&self, world: &impl Hash) -> bool {
        let mut hasher = Fingerprint::default();
        world.hash(&mut hasher);
        let mark = hasher.finish().max(1);
        let shard = &self.shards[(mark % SHARDS as u64) as usize];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if shard.len * 5 >= shard.slots.len() * 4 {
            let grown = shard.grow();
            self.bytes.fetch_add(grown * size_of::<u64>(), Ordering::Relaxed);
        }
        shard.insert(mark)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Shard {
    fn insert(&mut self, mark: u64) -> bool {
        let len = self.slots.len();
        let mut index = ((u128::from(mark) * len as u128) >> 64) as usize;
        loop {
            match self.slots[index] {
                0 => {
                    self.slots[index] = mark;
                    self.len += 1;
                    return true;
                }
                there if there == mark => return false,
                _ => index = if index + 1 == len { 0 } else { index + 1 },
            }
        }
    }

    /// The number of slots.
    fn grow(&mut self) -> usize {
        let (before, after) = (self.slots.len(), (self.slots.len() * 3 / 2).max(64));
        let old = std::mem::replace(&mut self.slots, vec![0; after]);
        self.len = 0;
        for mark in old.into_iter().filter(|mark| *mark != 0) {
            self.insert(mark);
        }
        after - before
    }
}

/// Collects bytes, and mixes them in by eight, twice.
struct Fingerprint {
    lanes: [u64; 2],
    gathered: u64,
    bits: u32,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self { lanes: [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344], gathered: 0, bits: 0 }
    }
}

fn mixed(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product as u64) ^ (product >> 64) as u64
}

impl Fingerprint {
    fn mix(&mut self) {
        let [one, other] = self.lanes;
        self.lanes = [
            mixed(one ^ self.gathered, 0x9e37_79b9_7f4a_7c15),
            mixed(other.rotate_left(29) ^ self.gathered, 0xc2b2_ae3d_27d4_eb4f),
        ];
        (self.gathered, self.bits) = (0, 0);
    }
}

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.gathered |= u64::from(byte) << self.bits;
        self.bits += 8;
        if self.bits == u64::BITS {
            self.mix();
        }
    }

    #[inline]
    fn write_i8(&mut self, byte: i8) {
        self.write_u8(byte.cast_unsigned());
    }

    /// The variant of an enum: never more than 255 here.
    #[inline]
    fn write_isize(&mut self, variant: isize) {
        self.write_u8(variant as u8);
    }

    /// The length of an array, which is known here.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        let mut last = Self { lanes: self.lanes, ..*self };
        last.gathered ^= u64::from(self.bits) << 56;
        last.mix();
        let [one, other] = last.lanes;
        mixed(one ^ other.rotate_left(32), 0x1656_67b1_9e37_79f9) ^ one ^ other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_once() {
        let seen = Seen::new();
        for number in 0..100_000_u32 {
            assert!(seen.insert(&number), "{number}");
        }
        for number in 0..100_000_u32 {
            assert!(!seen.insert(&number), "{number}");
        }
        assert!(seen.bytes() < 100_000 * 8 * 2);
    }
}
