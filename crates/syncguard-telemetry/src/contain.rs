//! Foreign code that panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs foreign code; `None` if it panicked. Nothing of that goes on from here, whatever was thrown.
pub(crate) fn contain<T>(foreign: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(foreign)).map_err(discard).ok()
}

/// Gets rid of what was thrown, as the core does: dropping it could panic again, and if a field of it
/// does so as well, that ends the process, caught or not. So only texts are dropped, which is what
/// `panic!` throws; anything else stays in memory.
fn discard(thrown: Box<dyn Any + Send>) {
    if !thrown.is::<&'static str>() && !thrown.is::<String>() {
        std::mem::forget(thrown);
    }
}
