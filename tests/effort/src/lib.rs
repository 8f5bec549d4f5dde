//! How much a test does: rounds, sizes of models, lengths of fleets.
//!
//! `cargo xtask test` and plain `cargo test` are for a contributor who waits; `cargo xtask test --full` is for the
//! night. A test asks here for its number, so that there is one place that knows which of the two runs.

use std::sync::OnceLock;

/// The environment variable that `cargo xtask test --full` sets to `full`.
pub const VARIABLE: &str = "SYNCGUARD_TESTS";

/// Whether all there is runs. A value other than `full` or `quick` ends the test, as a misspelt one would be
/// believed.
///
/// # Panics
///
/// If the variable is neither `full` nor `quick`.
#[must_use]
pub fn is_full() -> bool {
    static FULL: OnceLock<bool> = OnceLock::new();
    *FULL.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(word) if word == "full" => true,
        Ok(word) => {
            assert_eq!(word, "quick", "{VARIABLE} is quick or full");
            false
        }
        Err(_) => false,
    })
}

/// The first in a quick run, the second in a full one.
#[must_use]
pub fn either<T>(quick: T, full: T) -> T {
    if is_full() { full } else { quick }
}
