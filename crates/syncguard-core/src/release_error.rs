//! What happens to an error that nobody is waiting for.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::contain::contain;
use crate::{CleanUp, Key, LockError, LockId, LockObserver, checked_timeout};

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
/// use syncguard_core::ReleaseErrorHandler;
///
/// let handler = ReleaseErrorHandler::new(|error, context| {
///     eprintln!("{:?} was not released: {error}", context.key);
/// });
/// ```
#[derive(Clone)]
pub struct ReleaseErrorHandler(Arc<Callback>);

type Callback = dyn Fn(&LockError, &ReleaseErrorContext) + Send + Sync;

impl ReleaseErrorHandler {
    /// A handler from a closure.
    pub fn new(handler: impl Fn(&LockError, &ReleaseErrorContext) + Send + Sync + 'static) -> Self {
        Self(Arc::new(handler))
    }

    /// Reports an error; a panic in the handler ends here.
    pub(crate) fn report(&self, error: &LockError, context: &ReleaseErrorContext) {
        if contain(|| (self.0)(error, context)).is_none() {
            tracing::error!(key = %context.key.hash_id(), "the release error handler panicked");
        }
    }
}

impl fmt::Debug for ReleaseErrorHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReleaseErrorHandler")
    }
}

/// The default handler: a warning through `tracing`, with hashes only.
impl Default for ReleaseErrorHandler {
    fn default() -> Self {
        static LOG: LazyLock<ReleaseErrorHandler> = LazyLock::new(|| {
            ReleaseErrorHandler::new(|error, context| {
                tracing::warn!(
                    code = error.code().as_str(),
                    %error,
                    key = %context.key.hash_id(),
                    source = ?context.source,
                    "a lock was not released; it is tried again until the lock expires"
                );
            })
        });
        LOG.clone()
    }
}

/// What guards do when they end, and who hears of them, set once per backend.
///
/// A [`LockConfig`](crate::LockConfig) can say otherwise for one lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GuardDefaults {
    /// Hears of releases that failed unheard.
    pub on_release_error: ReleaseErrorHandler,
    /// The longest a release may take before it is reported as failed. It goes on in the background.
    pub dispose_timeout: Duration,
    /// Hears of waiting, holding and losing; nobody by default.
    pub observer: LockObserver,
    clean_up: CleanUp,
}

impl GuardDefaults {
    /// Five seconds.
    pub const DISPOSE_TIMEOUT: Duration = Duration::from_secs(5);

    /// The defaults for a backend that has no options of its own.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<GuardDefaults> = LazyLock::new(GuardDefaults::default);
        &SHARED
    }

    /// The background work of the backend: locks that nobody holds any more and that are still to be
    /// given back. Clones of these defaults share it.
    #[must_use]
    pub fn clean_up(&self) -> &CleanUp {
        &self.clean_up
    }

    /// These defaults where a lock does not say otherwise.
    pub(crate) fn or(
        &self,
        on_release_error: Option<&ReleaseErrorHandler>,
        dispose_timeout: Option<Duration>,
    ) -> Self {
        Self {
            on_release_error: on_release_error.unwrap_or(&self.on_release_error).clone(),
            dispose_timeout: dispose_timeout.unwrap_or(self.dispose_timeout),
            observer: self.observer.clone(),
            clean_up: self.clean_up.clone(),
        }
    }

    /// Sends release errors to this handler.
    #[must_use]
    pub fn with_on_release_error(mut self, handler: ReleaseErrorHandler) -> Self {
        self.on_release_error = handler;
        self
    }

    /// Tells this observer of waiting, holding and losing, instead of the one there was: a
    /// decorator passes its own [`and`](LockObserver::and) that of the backend inside.
    #[must_use]
    pub fn with_observer(mut self, observer: LockObserver) -> Self {
        self.observer = observer;
        self
    }

    /// Bounds a release by this time.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` below one millisecond or above 100 years.
    pub fn with_dispose_timeout(mut self, timeout: Duration) -> Result<Self, LockError> {
        self.dispose_timeout = checked_timeout("dispose timeout", timeout)?;
        Ok(self)
    }
}

impl Default for GuardDefaults {
    fn default() -> Self {
        Self {
            on_release_error: ReleaseErrorHandler::default(),
            dispose_timeout: Self::DISPOSE_TIMEOUT,
            observer: LockObserver::none(),
            clean_up: CleanUp::default(),
        }
    }
}
