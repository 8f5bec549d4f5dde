//! The state that the clones of a backend share in this process.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::clean_up::CleanUp;
use super::fence_memory::FenceMemory;
use super::outage_log::OutageLog;
use super::queue::WaitQueues;
use super::release_error::ReleaseErrorHandler;
use crate::contract::request::AcquireRequest;
use crate::observe::LockObserver;
use crate::rt::Instant;
use crate::value::Holder;

/// The state that the clones of a backend share in this process: the defaults for guards, the observer, the
/// queues in which callers wait, and the background work. A clone is cheap.
///
/// A [`LockConfig`](crate::LockConfig) can override the defaults for one lock.
#[derive(Clone, Debug, Default)]
pub struct ClientState(Arc<State>);

#[derive(Clone, Debug)]
struct State {
    on_release_error: ReleaseErrorHandler,
    dispose_timeout: Duration,
    observer: LockObserver,
    holder: Holder,
    clean_up: CleanUp,
    queues: WaitQueues,
    fences: FenceMemory,
    renewals: OutageLog,
    /// The moments of renewals count from here.
    renewals_began: Arc<OnceLock<Instant>>,
    releases: OutageLog,
}

impl ClientState {
    /// Five seconds.
    pub(crate) const DISPOSE_TIMEOUT: Duration = Duration::from_secs(5);

    /// The longest a release may take before it is reported as failed. It then goes on in the background.
    #[must_use]
    pub fn dispose_timeout(&self) -> Duration {
        self.0.dispose_timeout
    }

    pub(crate) fn on_release_error(&self) -> &ReleaseErrorHandler {
        &self.0.on_release_error
    }

    /// The observer of acquisitions, holds and losses; none by default.
    #[must_use]
    pub fn observer(&self) -> &LockObserver {
        &self.0.observer
    }

    /// The holder of locks that set no holder: [this process](Holder::this_process) by default.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.0.holder
    }

    /// For authors of backends: the holder to store with the lock of a request.
    #[must_use]
    pub fn holder_of<'a>(&'a self, request: &'a AcquireRequest) -> &'a Holder {
        request.holder.as_ref().unwrap_or(&self.0.holder)
    }

    /// How many keys the callers of this process hold by guards or wait for.
    #[must_use]
    pub fn keys_in_use(&self) -> usize {
        self.0.queues.len()
    }

    /// Gives back the locks that no caller holds any more.
    pub(crate) fn clean_up(&self) -> &CleanUp {
        &self.0.clean_up
    }

    /// How many locks that no caller holds any more wait to be given back or are being given back now. An operation that was
    /// sent and then dropped or cancelled counts from that moment on, because it may still take a lock.
    #[must_use]
    pub fn pending_releases(&self) -> usize {
        self.0.clean_up.waiting()
    }

    /// How many locks were left to end by their TTL since the backend was made, because more than 262 144 locks were to be
    /// given back, the store refused for good, or a release panicked.
    #[must_use]
    pub fn left_to_ttl(&self) -> u64 {
        self.0.clean_up.left_to_ttl()
    }

    /// Waits until every lock that no caller holds any more is given back, but at most for this time. Returns how many
    /// [are not](Self::pending_releases).
    ///
    /// A program calls it when it ends, after its own tasks have ended or were dropped and before its runtime ends: a lock
    /// that is not given back by then ends by its TTL. The program can take new locks meanwhile and afterwards.
    ///
    /// The work needs a tokio runtime: the one in which a lock is given up, or in which it was taken. When that runtime
    /// ends, the work goes on in another runtime as soon as there is one.
    ///
    /// # Cancel safety
    ///
    /// Safe: only the waiting ends.
    pub async fn drained(&self, timeout: Duration) -> usize {
        self.0.clean_up.drained(timeout).await
    }

    /// The queues in which callers wait.
    pub(crate) fn queues(&self) -> &WaitQueues {
        &self.0.queues
    }

    /// The fences that callers of this process were granted.
    pub(crate) fn fences(&self) -> &FenceMemory {
        &self.0.fences
    }

    /// Logs renewals that fail.
    pub(crate) fn renewals(&self) -> &OutageLog {
        &self.0.renewals
    }

    /// When a lock that was acquired or extended at this time is renewed: after the interval, or up to a 32nd of the
    /// interval earlier, at a moment that it shares with other locks of the backend.
    ///
    /// The moments are a power of two in milliseconds apart, so that locks of different TTLs share some.
    pub(crate) fn renewal_after(&self, from: Instant, interval: Duration) -> Instant {
        let began = *self.0.renewals_began.get_or_init(|| from);
        let due = (from + interval).saturating_duration_since(began).as_nanos();
        let apart = (interval.as_millis() / 32).checked_ilog2().map_or(1, |log| 1_000_000 << log);
        let early = Duration::from_nanos(u64::try_from(due % apart).unwrap_or_default());
        from + interval.saturating_sub(early)
    }

    /// Logs releases that fail.
    pub(crate) fn releases(&self) -> &OutageLog {
        &self.0.releases
    }

    /// These defaults, overridden by the lock's own settings.
    pub(crate) fn or(
        &self,
        on_release_error: Option<&ReleaseErrorHandler>,
        dispose_timeout: Option<Duration>,
    ) -> Self {
        let mut state = self.clone();
        if let Some(handler) = on_release_error {
            state = state.with_on_release_error(handler.clone());
        }
        if let Some(timeout) = dispose_timeout {
            state = state.with_dispose_timeout(timeout);
        }
        state
    }

    /// This state with its own queues: for a decorator that changes keys, so that waiters for different locks do not
    /// wait for each other, and their fences are not compared.
    #[must_use]
    pub fn with_own_queues(self) -> Self {
        self.with(|state| {
            state.queues = WaitQueues::new(false);
            state.fences = FenceMemory::default();
        })
    }

    /// This state with queues for a store that no other process can reach: a process that passes a lock to its own
    /// waiters need not leave a key free for rivals. Not for decorators.
    #[must_use]
    pub fn with_queues_of_single_process(self) -> Self {
        self.with(|state| state.queues = WaitQueues::new(true))
    }

    /// Sends release errors to this handler.
    #[must_use]
    pub fn with_on_release_error(self, handler: ReleaseErrorHandler) -> Self {
        self.with(|state| state.on_release_error = handler)
    }

    /// Replaces the observer. A decorator passes its own observer combined by [`and`](LockObserver::and) with the
    /// observer of the inner backend.
    #[must_use]
    pub fn with_observer(self, observer: LockObserver) -> Self {
        self.with(|state| state.observer = observer)
    }

    /// Stores this holder with locks that set no holder.
    #[must_use]
    pub fn with_holder(self, holder: Holder) -> Self {
        self.with(|state| state.holder = holder)
    }

    /// Bounds a release by this time, at least one millisecond. Check a user's time with
    /// [`checked_timeout`](crate::authoring::checked_timeout) first.
    #[must_use]
    pub fn with_dispose_timeout(self, timeout: Duration) -> Self {
        self.with(|state| state.dispose_timeout = timeout.max(Duration::from_millis(1)))
    }

    /// Changes this state only: clones that share it keep the old one.
    fn with(mut self, change: impl FnOnce(&mut State)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            on_release_error: ReleaseErrorHandler::default(),
            dispose_timeout: ClientState::DISPOSE_TIMEOUT,
            observer: LockObserver::default(),
            holder: Holder::this_process(),
            clean_up: CleanUp::default(),
            queues: WaitQueues::new(false),
            fences: FenceMemory::default(),
            renewals: OutageLog::default(),
            renewals_began: Arc::default(),
            releases: OutageLog::default(),
        }
    }
}
