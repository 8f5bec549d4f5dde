//! For the simulation: flaws that it plants in the code of backends, to see that its checks find them.
//!
//! Without the feature `test-util` there are none, and the compiler removes the questions.

#[cfg(feature = "test-util")]
use std::cell::Cell;

#[cfg(feature = "test-util")]
thread_local! {
    static FLAW: Cell<&'static str> = const { Cell::new("") };
}

/// From now on, code that runs on this thread has the flaw of this name; with an empty name, none.
#[cfg(feature = "test-util")]
pub fn plant(flaw: &'static str) {
    FLAW.set(flaw);
}

/// Whether the flaw of this name is planted.
#[must_use]
#[inline]
pub fn is_planted(flaw: &str) -> bool {
    #[cfg(feature = "test-util")]
    return FLAW.get() == flaw;
    #[cfg(not(feature = "test-util"))]
    {
        let _ = flaw;
        false
    }
}
