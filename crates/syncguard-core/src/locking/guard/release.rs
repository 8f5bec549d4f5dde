//! The release of a lock: one try, and a job that repeats it in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::min_hold::MinHold;
use crate::backend::LockBackend;
use crate::cancel::check_runtime;
use crate::client::clean_up::{Job, Outcome, Sending};
use crate::client::queue::LocalHolder;
use crate::client::{ClientState, ReleaseErrorContext, ReleaseSource};
use crate::contract::request::ReleaseRequest;
use crate::contract::response::ReleaseResult;
use crate::rt::{self, Instant, Spawner};
use crate::value::{ErrorCode, Fence, Key, LockError, LockId};

/// The outcome of a release.
pub(crate) struct ReleaseOutcome {
    pub(crate) result: Result<ReleaseResult, LockError>,
    /// Whether a waiter of this process was woken.
    pub(crate) woke_waiter: bool,
    /// Set if the release has failed, until that is reported.
    pub(super) failed: Option<Reporter>,
}

impl ReleaseOutcome {
    /// Reports the error to the handler, once, if the release has failed: no caller gets it.
    pub(crate) fn report(&mut self) {
        if let (Err(error), Some(reporter)) = (&self.result, self.failed.take()) {
            reporter.report(error);
        }
    }
}

/// Reports the error of a release to the handler.
pub(super) struct Reporter {
    pub(super) client_state: ClientState,
    pub(super) context: ReleaseErrorContext,
}

impl Reporter {
    pub(super) fn report(&self, error: &LockError) {
        let handler = self.client_state.on_release_error();
        handler.report(error, &self.context, self.client_state.releases());
    }
}

/// A lock that is to be given back, and what its release leaves behind.
pub(crate) struct Releasable<B> {
    pub(crate) backend: B,
    pub(crate) key: Key,
    pub(crate) lock_id: LockId,
    pub(crate) client_state: ClientState,
    /// `None` after it has passed to another release, or if the lock is known to be gone.
    pub(crate) local_holder: Option<LocalHolder>,
    pub(crate) min_hold: Option<Box<MinHold>>,
    /// The least counter of the key after the release, if the release raises it.
    pub(crate) counter: Option<Fence>,
}

impl<B: LockBackend> Releasable<B> {
    /// The same lock for another release, which takes over the holder and the minimum hold.
    pub(super) fn take(&mut self) -> Self {
        Self {
            backend: self.backend.clone(),
            key: self.key.clone(),
            lock_id: self.lock_id,
            client_state: self.client_state.clone(),
            local_holder: self.local_holder.take(),
            min_hold: self.min_hold.take(),
            counter: self.counter,
        }
    }

    pub(super) fn reporter(&self, source: ReleaseSource) -> Reporter {
        let context = ReleaseErrorContext { key: self.key.clone(), lock_id: self.lock_id, source };
        Reporter { client_state: self.client_state.clone(), context }
    }

    /// Sends one release and waits for the dispose timeout at most. Also returns whether a waiter was woken.
    pub(super) async fn send(&self) -> (Result<ReleaseResult, LockError>, bool) {
        if let Err(error) = check_runtime() {
            return (Err(error), false);
        }
        let result = self.answer().await;
        (result, self.local_holder.as_ref().is_some_and(LocalHolder::release))
    }

    async fn answer(&self) -> Result<ReleaseResult, LockError> {
        let timeout = self.client_state.dispose_timeout();
        rt::within(timeout, self.give_back()).await.unwrap_or_else(|| {
            Err(LockError::new(
                ErrorCode::NetworkTimeout,
                format!("no answer to the release within {timeout:?}"),
            )
            .with_unknown_outcome()
            .with_key(&self.key)
            .with_lock_id(self.lock_id))
        })
    }

    async fn give_back(&self) -> Result<ReleaseResult, LockError> {
        if let Some(min_hold) = &self.min_hold
            && let Some(kept) =
                min_hold.defer_release(&self.backend, &self.key, self.lock_id).await?
        {
            return Ok(kept);
        }
        let request = ReleaseRequest::new(self.lock_id);
        let request = match self.counter {
            None => request.with_key_hint(self.key.clone()),
            Some(at_least) => request.with_counter_at_least(self.key.clone(), at_least)?,
        };
        self.backend.release(request).await
    }
}

/// A release that is repeated in the background until it succeeds.
pub(super) struct ReleaseJob<B> {
    pub(super) lock: Releasable<B>,
    pub(super) source: ReleaseSource,
    pub(super) spawner: Spawner,
    /// When the lock has expired in any case.
    pub(super) over: Instant,
    /// Whether a failure was reported, or needs no report.
    pub(super) is_reported: AtomicBool,
    /// Whether the last try failed.
    pub(super) has_failed: AtomicBool,
}

impl<B: LockBackend> Job for ReleaseJob<B> {
    fn attempt(self: Arc<Self>) -> Sending {
        Box::pin(async move {
            match self.lock.send().await.0 {
                Ok(_) => {
                    if self.has_failed.swap(false, Ordering::Relaxed)
                        && self.lock.client_state.releases().ends()
                    {
                        tracing::info!("locks are released again");
                    }
                    Outcome::Done
                }
                Err(error) => {
                    self.has_failed.store(true, Ordering::Relaxed);
                    if !self.is_reported.swap(true, Ordering::Relaxed) {
                        self.lock.reporter(self.source).report(&error);
                    }
                    Outcome::Failed(error)
                }
            }
        })
    }

    fn over(&self) -> Instant {
        self.over
    }

    fn spawner(&self) -> &Spawner {
        &self.spawner
    }
}
