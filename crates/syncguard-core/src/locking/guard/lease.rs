//! One held lock and the two things that can be done to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::keep::Keep;
use super::loss::LossReason;
use super::validity::Validity;
use crate::contract::clean_up::{Attempt, Job, Outcome};
use crate::contract::{
    ClientState, ExtendRequest, ReleaseErrorContext, ReleaseRequest, ReleaseSource, TIME_TOLERANCE,
};
use crate::locking::queue::LocalHolder;
use crate::rt::{self, Instant, Spawner};
use crate::{
    ErrorCode, ExtendResult, Key, LockBackend, LockError, LockId, NotHeld, ReleaseResult,
    Timestamp, Ttl,
};

/// A held lock, owned by exactly one party: the guard, or the renewer that renews it. Dropped, it is
/// released in the background.
pub(crate) struct Lease<B: LockBackend> {
    pub(crate) backend: B,
    pub(crate) key: Key,
    pub(crate) lock_id: LockId,
    pub(crate) ttl: Ttl,
    pub(crate) disposal: ClientState,
    pub(crate) spawner: Spawner,
    /// The longest TTL that was asked for.
    longest: Ttl,
    /// Extends without an answer that may still arrive: the expiry that each of them applies to, and its TTL.
    unanswered: Vec<(Timestamp, Ttl)>,
    /// `None` once the release has it, and for a lock that nobody waits behind.
    local_holder: Option<LocalHolder>,
    /// For a lock that stays for a minimum time.
    keep: Option<Box<Keep>>,
    is_released: bool,
}

impl<B: LockBackend> Lease<B> {
    pub(crate) fn new(
        backend: B,
        (key, lock_id, ttl): (Key, LockId, Ttl),
        disposal: ClientState,
        spawner: Spawner,
        local_holder: Option<LocalHolder>,
    ) -> Self {
        Self {
            backend,
            key,
            lock_id,
            ttl,
            disposal,
            spawner,
            longest: ttl,
            unanswered: Vec::new(),
            local_holder,
            keep: None,
            is_released: false,
        }
    }

    /// Keeps the lock for a minimum time.
    pub(crate) fn keep(&mut self, keep: Keep) {
        self.keep = Some(Box::new(keep));
    }

    /// The store said when the lock expires.
    fn told(&mut self, expires_at: Timestamp) {
        if let Some(keep) = &mut self.keep {
            keep.told(expires_at);
        }
    }

    /// Extends the lock and notes what the holder may rely on from then on.
    ///
    /// An extend applies only to the expiry that was last heard of. So one that was given up and
    /// arrives late changes nothing, once a later one has been confirmed. Where the earlier one came
    /// first, the store says so, and the expiry that it set is extended instead. And if the lock has come to
    /// an expiry again that such a one applies to, to the millisecond, it is extended once more. Until that is
    /// answered, the holder relies on no more than the shortest of them would leave it.
    pub(crate) async fn extend(
        &mut self,
        ttl: Ttl,
        validity: &Validity,
    ) -> Result<ExtendResult, LockError> {
        const TRIES: u32 = 4;
        const TICK: Duration = Duration::from_millis(1);
        self.longest = self.longest.max(ttl);
        for tries_left in (0..TRIES).rev() {
            let until = Instant::now() + ttl.as_duration();
            validity.extending(self.shortest(ttl));
            let expected = validity.expires_at();
            let is_new = self.is_sent(expected, ttl);
            let request = ExtendRequest {
                lock_id: self.lock_id,
                key_hint: Some(self.key.clone()),
                ttl,
                expected_expiry: Some(expected),
                cancellation: None,
            };
            // Boxed: it lives for a moment, and a driver's future would swell every guard's.
            let result = match Box::pin(self.backend.extend(request)).await {
                // The connection broke. It may have been dead for long, and others with it.
                Err(error) if tries_left > 0 && is_lost_on_the_way(&error) => {
                    if let Err(reason) = validity.check() {
                        return Ok(ExtendResult::NotHeld(as_not_held(reason)));
                    }
                    continue;
                }
                result => result?,
            };
            if is_new {
                self.unanswered.pop();
            }
            match result {
                ExtendResult::Extended { expires_at } if self.may_be_overwritten(expires_at) => {
                    self.told(expires_at);
                    validity.told(expires_at);
                    rt::sleep_until(rt::after(TICK)).await;
                }
                ExtendResult::Extended { expires_at } => {
                    // The store's time has passed what they apply to, and no extend comes back to that.
                    self.unanswered.retain(|(expiry, _)| expires_at - *expiry <= ttl.as_duration());
                    self.told(expires_at);
                    let renewed = validity.renewed(until, expires_at);
                    return Ok(renewed.map_or_else(
                        |reason| ExtendResult::NotHeld(as_not_held(reason)),
                        |()| result,
                    ));
                }
                ExtendResult::NotHeld(_) => {
                    validity.end(LossReason::NotHeld);
                    // Whoever waits for it need not wait for the release.
                    self.local_holder = None;
                    return Ok(result);
                }
                ExtendResult::Mismatch { expires_at } => {
                    self.told(expires_at);
                    validity.told(expires_at);
                }
            }
            if let Err(reason) = validity.check() {
                return Ok(ExtendResult::NotHeld(as_not_held(reason)));
            }
        }
        Err(LockError::new(
            ErrorCode::ServiceUnavailable,
            "somebody else keeps extending the lock with this id",
        ))
    }

    /// When the lock may end if it is extended for this long now, and an extend without an answer comes after that.
    fn shortest(&self, ttl: Ttl) -> Instant {
        let ttls = self.unanswered.iter().map(|(_, ttl)| *ttl);
        Instant::now() + ttls.fold(ttl, Ttl::min).as_duration()
    }

    /// Whether an extend without an answer applies to this expiry.
    fn may_be_overwritten(&self, expires_at: Timestamp) -> bool {
        self.unanswered.iter().any(|(expiry, _)| *expiry == expires_at)
    }

    /// An extend that applies to this expiry is sent. Whether it is the first such one without an answer.
    fn is_sent(&mut self, expected: Timestamp, ttl: Ttl) -> bool {
        /// More than can be on their way at a time.
        const MOST: usize = 32;
        if let Some((_, before)) =
            self.unanswered.iter_mut().find(|(expiry, _)| *expiry == expected)
        {
            *before = ttl.min(*before);
            return false;
        }
        if self.unanswered.len() == MOST {
            self.unanswered.remove(0);
        }
        self.unanswered.push((expected, ttl));
        true
    }

    /// Releases the lock within the dispose timeout, or lets it go when its minimum hold is over. What fails
    /// is tried again in the background.
    pub(crate) async fn release(mut self: Box<Self>, source: ReleaseSource) -> GivenBack {
        let (result, has_woken) = self.claim().send().await;
        self.is_released = true;
        let failed = result.is_err().then(|| {
            let again = Release::of(&mut self, None);
            self.disposal.clean_up().push_after(Arc::new(again), Release::<B>::PAUSE);
            self.reporter(source)
        });
        GivenBack { result, has_woken, failed }
    }

    /// Releases the lock where nobody waits for the answer. Whether the next one was woken.
    pub(crate) async fn dispose(self: Box<Self>, source: ReleaseSource) -> bool {
        let given = self.release(source).await;
        given.report();
        given.has_woken
    }

    fn claim(&self) -> Claim<'_, B> {
        Claim {
            backend: &self.backend,
            disposal: &self.disposal,
            key: &self.key,
            lock_id: self.lock_id,
            local_holder: self.local_holder.as_ref(),
            keep: self.keep.as_deref(),
        }
    }

    fn reporter(&self, source: ReleaseSource) -> Reporter {
        let context = ReleaseErrorContext { key: self.key.clone(), lock_id: self.lock_id, source };
        Reporter { disposal: self.disposal.clone(), context }
    }
}

impl<B: LockBackend> Drop for Lease<B> {
    fn drop(&mut self) {
        if !self.is_released {
            let release = Release::of(self, Some(ReleaseSource::Drop));
            self.disposal.clean_up().push(Arc::new(release));
        }
    }
}

/// What came of a release.
pub(crate) struct GivenBack {
    pub(crate) result: Result<ReleaseResult, LockError>,
    /// Whether somebody of this process waits for the lock, and was woken.
    pub(crate) has_woken: bool,
    /// Who tells of it where nobody waits for the result.
    pub(super) failed: Option<Reporter>,
}

impl GivenBack {
    /// Tells the handler if it has failed.
    pub(crate) fn report(&self) {
        if let (Err(error), Some(reporter)) = (&self.result, &self.failed) {
            reporter.report(error);
        }
    }
}

/// Tells the handler of a release that failed.
pub(super) struct Reporter {
    disposal: ClientState,
    context: ReleaseErrorContext,
}

impl Reporter {
    pub(super) fn report(&self, error: &LockError) {
        let handler = self.disposal.on_release_error();
        handler.report(error, &self.context, self.disposal.releases());
    }
}

/// A release that may have to be tried several times.
struct Release<B> {
    backend: B,
    reporter: Reporter,
    spawner: Spawner,
    /// When the lock is over anyway.
    over: Instant,
    local_holder: Option<LocalHolder>,
    keep: Option<Box<Keep>>,
    /// Whether nobody has to hear of a failure any more.
    is_reported: AtomicBool,
    /// Whether the last try failed.
    has_failed: AtomicBool,
}

impl<B: LockBackend> Release<B> {
    /// Before it is tried for the second time.
    const PAUSE: Duration = Duration::from_millis(50);

    /// The release of a lock, whose failure is reported if a source is given.
    fn of(lease: &mut Lease<B>, report: Option<ReleaseSource>) -> Self {
        Self {
            backend: lease.backend.clone(),
            reporter: lease.reporter(report.unwrap_or(ReleaseSource::Drop)),
            spawner: lease.spawner.clone(),
            over: rt::after(lease.longest.as_duration() + TIME_TOLERANCE),
            local_holder: lease.local_holder.take(),
            keep: lease.keep.take(),
            is_reported: AtomicBool::new(report.is_none()),
            has_failed: AtomicBool::new(false),
        }
    }

    fn claim(&self) -> Claim<'_, B> {
        let Reporter { disposal, context } = &self.reporter;
        Claim {
            backend: &self.backend,
            disposal,
            key: &context.key,
            lock_id: context.lock_id,
            local_holder: self.local_holder.as_ref(),
            keep: self.keep.as_deref(),
        }
    }
}

/// What a release needs to know.
struct Claim<'a, B> {
    backend: &'a B,
    disposal: &'a ClientState,
    key: &'a Key,
    lock_id: LockId,
    local_holder: Option<&'a LocalHolder>,
    keep: Option<&'a Keep>,
}

impl<B: LockBackend> Claim<'_, B> {
    /// One release within the dispose timeout; after that it goes on unheard. Also whether somebody was woken.
    async fn send(&self) -> (Result<ReleaseResult, LockError>, bool) {
        if let Err(error) = rt::check() {
            return (Err(error), false);
        }
        let result = self.answer().await;
        (result, self.local_holder.is_some_and(LocalHolder::freed))
    }

    async fn answer(&self) -> Result<ReleaseResult, LockError> {
        let timeout = self.disposal.dispose_timeout();
        rt::within(timeout, self.give_back()).await.unwrap_or_else(|| {
            Err(LockError::new(
                ErrorCode::NetworkTimeout,
                format!("no answer to the release within {timeout:?}"),
            )
            .with_unknown_outcome()
            .with_key(self.key)
            .with_lock_id(self.lock_id))
        })
    }

    async fn give_back(&self) -> Result<ReleaseResult, LockError> {
        if let Some(keep) = self.keep
            && let Some(kept) =
                keep.instead_of_release(self.backend, self.key, self.lock_id).await?
        {
            return Ok(kept);
        }
        let request = ReleaseRequest::new(self.lock_id).with_key_hint(self.key.clone());
        self.backend.release(request).await
    }
}

impl<B: LockBackend> Job for Release<B> {
    fn attempt(self: Arc<Self>) -> Attempt {
        Box::pin(async move {
            match self.claim().send().await.0 {
                Ok(_) => {
                    if self.has_failed.swap(false, Ordering::Relaxed)
                        && self.reporter.disposal.releases().ends()
                    {
                        tracing::info!("locks are released again");
                    }
                    Outcome::Done
                }
                Err(error) => {
                    self.has_failed.store(true, Ordering::Relaxed);
                    if !self.is_reported.swap(true, Ordering::Relaxed) {
                        self.reporter.report(&error);
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

/// A backend sends an extend once. Here it is known what an earlier one may still do.
fn is_lost_on_the_way(error: &LockError) -> bool {
    error.is_outcome_unknown() && error.code() == ErrorCode::ServiceUnavailable
}

/// Why an extend of a lock that is over is not even sent.
pub(crate) fn as_not_held(reason: LossReason) -> NotHeld {
    match reason {
        LossReason::Expired | LossReason::MaxHold | LossReason::RenewerPanicked => NotHeld::Expired,
        LossReason::NotHeld | LossReason::Released => NotHeld::NotFound,
    }
}
