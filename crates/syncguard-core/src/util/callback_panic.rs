//! Callbacks that panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a callback of the user; `None` if it panicked. The panic ends here, whatever its payload is.
///
/// ```
/// use syncguard_core::authoring::catch_callback_panic;
///
/// assert_eq!(catch_callback_panic(|| 7), Some(7));
/// ```
pub fn catch_callback_panic<T>(foreign: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(foreign)).map_err(discard).ok()
}

/// Gets rid of the payload. Dropping it could panic again, and a panic in the drop of one of its fields then
/// ends the process, even inside `catch_unwind`. So only texts, the payloads of `panic!`, are dropped;
/// any other payload stays in memory.
fn discard(thrown: Box<dyn Any + Send>) {
    if !thrown.is::<&'static str>() && !thrown.is::<String>() {
        std::mem::forget(thrown);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{panic_any, resume_unwind};
    use std::sync::Arc;

    use super::catch_callback_panic;

    /// Its drop panics, and while that unwinds, the drop of its field panics too.
    struct PanicsInDrop(FieldPanicsToo);

    struct FieldPanicsToo;

    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("as the test wants it, in the drop of a payload");
        }
    }

    impl Drop for FieldPanicsToo {
        fn drop(&mut self) {
            panic!("as the test wants it, in the drop of its field");
        }
    }

    #[test]
    fn whatever_is_thrown_goes_no_further() {
        assert_eq!(catch_callback_panic(|| 7), Some(7));
        assert!(catch_callback_panic(|| panic!("text")).is_none());
        assert!(catch_callback_panic(|| panic!("{}", 1)).is_none());
        assert!(catch_callback_panic(|| panic_any(PanicsInDrop(FieldPanicsToo))).is_none());
        let thrown = Box::new(PanicsInDrop(FieldPanicsToo));
        assert!(catch_callback_panic(|| resume_unwind(thrown)).is_none());
    }

    #[test]
    fn what_was_not_thrown_is_dropped() {
        let held = Arc::new(());
        let moved = Arc::clone(&held);
        let result = catch_callback_panic(move || panic!("as the test wants it: {moved:?}"));
        assert!(result.is_none());
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
