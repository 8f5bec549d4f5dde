//! What the clones of one backend share in this process.

use std::time::Duration;

use super::clean_up::CleanUp;
use super::episode::Episode;
use crate::authoring::checked_timeout;
use crate::locking::Lines;
use crate::{LockError, LockObserver, ReleaseErrorHandler};

/// What the clones of one backend share in this process: what guards do when they end, who hears of
/// locks, the lines in which callers wait, and the background work.
///
/// A [`LockConfig`](crate::LockConfig) can say otherwise for one lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientState {
    /// Hears of releases that failed unheard.
    pub on_release_error: ReleaseErrorHandler,
    /// The longest a release may take before it is reported as failed. It goes on in the background.
    pub dispose_timeout: Duration,
    /// Hears of waiting, holding and losing; nobody by default.
    pub observer: LockObserver,
    clean_up: CleanUp,
    pub(crate) lines: Lines,
    /// Of renewals that fail.
    pub(crate) renewals: Episode,
    /// Of releases that fail.
    pub(crate) releases: Episode,
}

impl ClientState {
    /// Five seconds.
    pub const DISPOSE_TIMEOUT: Duration = Duration::from_secs(5);

    /// This state, with lines of its own: for a decorator that changes keys, so that those who wait for
    /// different locks do not wait for each other.
    #[must_use]
    pub fn with_own_lines(mut self) -> Self {
        self.lines = Lines::default();
        self
    }

    /// This state, with lines for a store that no other process can reach: a process that hands a lock on
    /// to itself need not let others go first now and then. Not for decorators.
    #[must_use]
    pub fn with_lines_of_one_process(mut self) -> Self {
        self.lines = Lines::of_one_process();
        self
    }

    /// How many keys callers of this process have or wait for, as far as they use guards.
    #[must_use]
    pub fn keys_in_use(&self) -> usize {
        self.lines.len()
    }

    /// The background work of the backend: locks that nobody holds any more and that are still to be
    /// given back. Clones share it.
    #[must_use]
    pub fn clean_up(&self) -> &CleanUp {
        &self.clean_up
    }

    /// This state where a lock does not say otherwise.
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
            lines: self.lines.clone(),
            renewals: self.renewals.clone(),
            releases: self.releases.clone(),
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

impl Default for ClientState {
    fn default() -> Self {
        Self {
            on_release_error: ReleaseErrorHandler::default(),
            dispose_timeout: Self::DISPOSE_TIMEOUT,
            observer: LockObserver::none(),
            clean_up: CleanUp::default(),
            lines: Lines::default(),
            renewals: Episode::default(),
            releases: Episode::default(),
        }
    }
}
