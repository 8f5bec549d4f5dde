//! What happens to an error that nobody is waiting for.

use std::fmt;
use std::sync::Arc;

use super::episode::Episode;
use crate::authoring::contain;
use crate::{Key, LockError, LockId};

/// Where a release that failed came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseSource {
    /// A guard was dropped.
    Drop,
    /// The work of [`lock`](crate::lock()) had ended.
    Lock,
}

/// What a release error is about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReleaseErrorContext {
    /// The key of the lock that may still be held. Redacted unless exposed.
    pub key: Key,
    /// The id of that lock. Redacted unless exposed.
    pub lock_id: LockId,
    /// Where the release came from.
    pub source: ReleaseSource,
}

/// Hears of releases that failed after nobody could be told: when a guard was dropped, or when the
/// work of [`lock`](crate::lock()) had already produced its result. TypeScript: `onReleaseError`.
///
/// It hears of the first failure of each. The release is tried again in the background, until the store
/// confirms it or the lock has expired. The handler runs on the task that released: keep it short. A
/// panic in it is contained.
///
/// ```
/// use syncguard_core::contract::ReleaseErrorHandler;
///
/// let handler = ReleaseErrorHandler::new(|error, context| {
///     eprintln!("{:?} was not released: {error}", context.key);
/// });
/// ```
#[derive(Clone, Default)]
pub struct ReleaseErrorHandler(Option<Arc<Callback>>);

type Callback = dyn Fn(&LockError, &ReleaseErrorContext) + Send + Sync;

impl ReleaseErrorHandler {
    /// A handler from a closure. The default one logs a warning through `tracing`, with hashes only: of a
    /// store that is away one line, however many locks are not released.
    pub fn new(handler: impl Fn(&LockError, &ReleaseErrorContext) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(handler)))
    }

    /// Reports an error; a panic in the handler ends here.
    pub(crate) fn report(
        &self,
        error: &LockError,
        context: &ReleaseErrorContext,
        episode: &Episode,
    ) {
        let Some(handler) = &self.0 else { return log(error, context, episode) };
        if contain(|| handler(error, context)).is_none() {
            tracing::error!(key_hash = %context.key.hash_id(), "the release error handler panicked");
        }
    }
}

fn log(error: &LockError, context: &ReleaseErrorContext, episode: &Episode) {
    // The level of a tracing event is part of its static description.
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
    if episode.begins() {
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
