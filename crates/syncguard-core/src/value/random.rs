//! The system's secure random source. A simulation replaces it by a sequence that can be repeated.

pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    #[cfg(feature = "test-util")]
    if seeded::fill(bytes) {
        return Ok(());
    }
    getrandom::fill(bytes)
}

#[cfg(feature = "test-util")]
pub(crate) mod seeded {
    use std::cell::Cell;

    thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// For simulations: from now on this thread takes its randomness from the sequence of the seed, which is
    /// no secret. `None` returns to the system's source.
    pub fn seed_randomness(seed: Option<u64>) {
        STATE.set(seed);
    }

    /// Returns false on a thread without a seed.
    pub(super) fn fill(bytes: &mut [u8]) -> bool {
        let Some(mut state) = STATE.get() else { return false };
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let mixed = (mixed ^ (mixed >> 31)).to_le_bytes();
            chunk.copy_from_slice(&mixed[..chunk.len()]);
        }
        STATE.set(Some(state));
        true
    }
}
