//! The size of a test run: rounds, and lengths of fleets.
//!
//! `cargo test` and `cargo xtask test` are for a contributor who waits; `cargo xtask test --full` is for the night.
//! Each test asks here for its number, so only this crate knows which of the two runs.

use std::sync::OnceLock;

/// The environment variable that `cargo xtask test --full` sets to `full`.
pub const VARIABLE: &str = "SYNCGUARD_TESTS";

/// Returns true for a full run. A value other than `full` or `quick` ends the test, so that a misspelt value is
/// noticed.
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

/// Returns the first value in a quick run, and the second in a full run.
#[must_use]
pub fn either<T>(quick: T, full: T) -> T {
    if is_full() { full } else { quick }
}
