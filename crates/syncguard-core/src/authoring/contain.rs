//! Foreign code that panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a closure of somebody else; `None` if it panicked. Nothing of that goes on from here, whatever was
/// thrown.
///
/// ```
/// use syncguard_core::authoring::contain;
///
/// assert_eq!(contain(|| 7), Some(7));
/// ```
pub fn contain<T>(foreign: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(foreign)).map_err(discard).ok()
}

/// Gets rid of what was thrown. Dropping it could panic again, and if a field of it does so as well,
/// that ends the process, caught or not. So only texts are dropped, which is what `panic!` throws;
/// anything else stays in memory.
fn discard(thrown: Box<dyn Any + Send>) {
    if !thrown.is::<&'static str>() && !thrown.is::<String>() {
        std::mem::forget(thrown);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{panic_any, resume_unwind};
    use std::sync::Arc;

    use super::contain;
    use crate::contract::episode::Episode;
    use crate::contract::{ReleaseErrorContext, ReleaseErrorHandler, ReleaseSource};
    use crate::{Key, LockError, LockId};

    /// Dropping it panics, and while that unwinds its field does.
    struct PanicsAgain(AndOnceMore);

    struct AndOnceMore;

    impl Drop for PanicsAgain {
        fn drop(&mut self) {
            panic!("as the test wants it, in the drop of a payload");
        }
    }

    impl Drop for AndOnceMore {
        fn drop(&mut self) {
            panic!("as the test wants it, in the drop of its field");
        }
    }

    #[test]
    fn whatever_is_thrown_goes_no_further() {
        assert_eq!(contain(|| 7), Some(7));
        assert!(contain(|| panic!("text")).is_none());
        assert!(contain(|| panic!("{}", 1)).is_none());
        assert!(contain(|| panic_any(PanicsAgain(AndOnceMore))).is_none());
        assert!(contain(|| resume_unwind(Box::new(PanicsAgain(AndOnceMore)))).is_none());
    }

    #[test]
    fn what_was_not_thrown_is_dropped() {
        let held = Arc::new(());
        let moved = Arc::clone(&held);
        let result = contain(move || panic!("as the test wants it: {moved:?}"));
        assert!(result.is_none());
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_release_error_handler_cannot_throw() {
        let handler = ReleaseErrorHandler::new(|_, _| panic_any(PanicsAgain(AndOnceMore)));
        let context = ReleaseErrorContext {
            key: Key::new("key").unwrap(),
            lock_id: LockId::generate().unwrap(),
            source: ReleaseSource::Drop,
        };
        handler.report(&LockError::aborted(), &context, &Episode::default());
    }
}
