//! Errors of releases that no caller waits for.

use std::fmt;
use std::sync::Arc;

use super::outage_log::OutageLog;
use crate::util::catch_callback_panic;
use crate::value::{Key, LockError, LockId};

/// The origin of a release that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseSource {
    /// A guard was dropped.
    Drop,
    /// The work of [`lock`](crate::lock()) ended.
    Lock,
}

/// The lock of a release that failed, and the origin of the release.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReleaseErrorContext {
    /// The key of the lock that may still be held. Redacted unless exposed.
    pub key: Key,
    /// The id of that lock. Redacted unless exposed.
    pub lock_id: LockId,
    /// The origin of the release.
    pub source: ReleaseSource,
}

/// Called for releases that fail when no caller can get the error: a guard was dropped, or the
/// work of [`lock`](crate::lock()) had already produced its result. TypeScript: `onReleaseError`.
///
/// The handler is called for the first failure of each release. The release is tried again in the background,
/// until the store confirms it or the lock has expired. The handler runs on the task that released: keep it
/// short. A panic in the handler goes no further.
///
/// ```
/// use syncguard_core::shared::ReleaseErrorHandler;
///
/// let handler = ReleaseErrorHandler::new(|error, context| {
///     eprintln!("{:?} was not released: {error}", context.key);
/// });
/// ```
#[derive(Clone, Default)]
pub struct ReleaseErrorHandler(Option<Arc<Callback>>);

type Callback = dyn Fn(&LockError, &ReleaseErrorContext) + Send + Sync;

impl ReleaseErrorHandler {
    /// A handler from a closure. The default handler logs through `tracing`, with hashes only: one warning for each
    /// outage of the store, however many locks are not released.
    pub fn new(handler: impl Fn(&LockError, &ReleaseErrorContext) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(handler)))
    }

    /// Reports an error. A panic in the handler ends here.
    pub(crate) fn report(
        &self,
        error: &LockError,
        context: &ReleaseErrorContext,
        outage: &OutageLog,
    ) {
        let Some(handler) = &self.0 else { return log(error, context, outage) };
        if catch_callback_panic(|| handler(error, context)).is_none() {
            tracing::error!(key_hash = %context.key.hash_id(), "the release error handler panicked");
        }
    }
}

fn log(error: &LockError, context: &ReleaseErrorContext, outage: &OutageLog) {
    // A macro, because the level of a tracing event is part of its static description.
    macro_rules! at {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                error_code = error.code().as_str(),
                %error,
                key_hash = %context.key.hash_id(),
                source = ?context.source,
                $message
            )
        };
    }
    if outage.begins() {
        at!(
            warn,
            "a lock was not released; it is tried again until the lock expires, and more of them are logged at debug"
        );
    } else {
        at!(debug, "a lock was not released; it is tried again until the lock expires");
    }
}

impl fmt::Debug for ReleaseErrorHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReleaseErrorHandler")
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    struct PanicsInDrop;

    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("as the test wants it, in the drop of a payload");
        }
    }

    #[test]
    fn a_release_error_handler_cannot_throw() {
        let handler = ReleaseErrorHandler::new(|_, _| panic_any(PanicsInDrop));
        let context = ReleaseErrorContext {
            key: Key::new("key").unwrap(),
            lock_id: LockId::generate().unwrap(),
            source: ReleaseSource::Drop,
        };
        handler.report(&LockError::aborted(), &context, &OutageLog::default());
    }
}
