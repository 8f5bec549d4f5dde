//! A held lock, which its owner extends and releases.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::min_hold::MinHold;
use super::parting::Parting;
use super::release::{Releasable, ReleaseJob, ReleaseOutcome};
use super::validity::Validity;
use crate::backend::LockBackend;
use crate::client::ReleaseSource;
use crate::contract::liveness::{TIME_STEP, TIME_TOLERANCE};
use crate::contract::loss_reason::LossReason;
use crate::contract::request::ExtendRequest;
use crate::contract::response::{ExtendResult, NotHeld};
use crate::rt::{self, Instant, Spawner};
use crate::value::{ErrorCode, LockError, Timestamp, Ttl};

/// A held lock. It has exactly one owner: the guard, or the task that renews it. A dropped lease is
/// released in the background.
pub(crate) struct Lease<B: LockBackend> {
    pub(crate) lock: Releasable<B>,
    pub(crate) ttl: Ttl,
    pub(crate) spawner: Spawner,
    /// The longest TTL that was requested.
    longest_ttl: Ttl,
    /// Unanswered extends that may still arrive: the expiry that each expects, and its TTL.
    unanswered: Vec<(Timestamp, Ttl)>,
    is_released: bool,
}

impl<B: LockBackend> Lease<B> {
    pub(crate) fn new(lock: Releasable<B>, ttl: Ttl, spawner: Spawner) -> Self {
        let (longest_ttl, unanswered) = (ttl, Vec::new());
        Self { lock, ttl, spawner, longest_ttl, unanswered, is_released: false }
    }

    /// Sets the minimum hold.
    pub(crate) fn set_min_hold(&mut self, min_hold: MinHold) {
        self.lock.min_hold = Some(Box::new(min_hold));
    }

    /// Sets what the release leaves behind, in place of a minimum hold.
    pub(super) fn part(&mut self, parting: Parting, expires_at: Timestamp) {
        match parting {
            Parting::Free => {}
            Parting::Counter(at_least) => {
                (self.lock.min_hold, self.lock.counter) = (None, Some(at_least));
            }
            Parting::Pause(pause) => self.set_min_hold(MinHold::new(pause, expires_at)),
        }
    }

    /// The store has reported when the lock expires.
    fn set_expires_at(&mut self, expires_at: Timestamp) {
        if let Some(min_hold) = &mut self.lock.min_hold {
            min_hold.set_expires_at(expires_at);
        }
    }

    /// Extends the lock and updates how long the holder may rely on it. Only the first try may go with others.
    ///
    /// An extend names the expiry that it expects, and changes nothing if the lock has another. So an
    /// extend that was given up and arrives late changes nothing after a later extend was confirmed. If the
    /// given-up extend arrives first, the store reports the expiry that it set, and the next request expects
    /// that one.
    ///
    /// The new expiry can equal, to the millisecond, the expiry that an unanswered extend expects. Then that
    /// extend could still shorten the lock, so the lock is extended once more. Until this is answered, the
    /// holder relies only on the shortest TTL among the unanswered extends.
    pub(crate) async fn extend(
        &mut self,
        ttl: Ttl,
        with_others: bool,
        validity: &Validity,
    ) -> Result<ExtendResult, LockError> {
        const TRIES: u32 = 4;
        self.longest_ttl = self.longest_ttl.max(ttl);
        for tries_left in (0..TRIES).rev() {
            let until = Instant::now() + ttl.as_duration();
            validity.extend_sent(self.earliest_end(ttl));
            let expected = validity.expires_at();
            let is_new = self.record_sent(expected, ttl);
            let request = ExtendRequest {
                lock_id: self.lock.lock_id,
                key_hint: Some(self.lock.key.clone()),
                ttl,
                expected_expiry: Some(expected),
                goes_with_others: with_others && tries_left == TRIES - 1,
                cancellation: None,
            };
            // Boxed: a driver's future is short-lived, but would enlarge the future of every guard.
            let result = match Box::pin(self.lock.backend.extend(request)).await {
                // The connection broke. It may have been dead for long, like other connections of the pool.
                Err(error) if tries_left > 0 && is_connection_lost(&error) => {
                    if let Err(reason) = validity.check() {
                        return Ok(ExtendResult::NotHeld(as_not_held(reason)));
                    }
                    continue;
                }
                Err(error) if error.is_record_lost() => {
                    self.end(validity, LossReason::RecordLost);
                    return Err(error);
                }
                result => result?,
            };
            if is_new {
                self.unanswered.pop();
            }
            match result {
                ExtendResult::Extended { expires_at } if self.may_be_overwritten(expires_at) => {
                    self.set_expires_at(expires_at);
                    validity.set_expires_at(expires_at);
                    rt::sleep_until(rt::after(TIME_STEP)).await;
                }
                ExtendResult::Extended { expires_at } => {
                    // An extend sets the store's present time plus its TTL. The difference shows that the
                    // store's clock has passed these expiries, so no later extend can set them again.
                    self.unanswered.retain(|(expiry, _)| expires_at - *expiry <= ttl.as_duration());
                    self.set_expires_at(expires_at);
                    let renewed = validity.renewed(until, expires_at);
                    return Ok(renewed.map_or_else(
                        |reason| ExtendResult::NotHeld(as_not_held(reason)),
                        |()| result,
                    ));
                }
                ExtendResult::NotHeld(_) => {
                    self.end(validity, LossReason::NotHeld);
                    return Ok(result);
                }
                ExtendResult::Mismatch { expires_at } => {
                    self.set_expires_at(expires_at);
                    validity.set_expires_at(expires_at);
                }
            }
            if let Err(reason) = validity.check() {
                return Ok(ExtendResult::NotHeld(as_not_held(reason)));
            }
        }
        Err(LockError::new(
            ErrorCode::ServiceUnavailable,
            "another client keeps extending the lock with this id",
        ))
    }

    /// The lock is gone, so the waiters of this process need not wait for the release.
    fn end(&mut self, validity: &Validity, reason: LossReason) {
        validity.end(reason);
        self.lock.local_holder = None;
    }

    /// When the lock ends at the earliest if it is extended for `ttl` now and an unanswered extend arrives
    /// after that.
    fn earliest_end(&self, ttl: Ttl) -> Instant {
        let ttls = self.unanswered.iter().map(|(_, ttl)| *ttl);
        Instant::now() + ttls.fold(ttl, Ttl::min).as_duration()
    }

    /// Whether an unanswered extend expects this expiry.
    fn may_be_overwritten(&self, expires_at: Timestamp) -> bool {
        self.unanswered.iter().any(|(expiry, _)| *expiry == expires_at)
    }

    /// Records that an extend that expects this expiry is about to be sent. Returns whether no unanswered
    /// extend expects the same expiry.
    fn record_sent(&mut self, expected: Timestamp, ttl: Ttl) -> bool {
        /// More extends than can be in flight at a time.
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

    /// Releases the lock within the dispose timeout, or lets it expire at the end of its minimum hold. A
    /// release that fails is repeated in the background. After the work of [`lock`](crate::lock()), the error is reported
    /// here, because the caller gets the result of the work.
    pub(crate) async fn release(mut self, source: ReleaseSource) -> ReleaseOutcome {
        let (result, woke_waiter) = self.lock.send().await;
        self.is_released = true;
        let failed = result.is_err().then(|| {
            let again = self.release_job(None);
            self.lock.client_state.clean_up().push_again(Arc::new(again));
            self.lock.reporter(source)
        });
        let mut outcome = ReleaseOutcome { result, woke_waiter, failed };
        if source == ReleaseSource::Lock {
            outcome.report();
        }
        outcome
    }

    /// The background release of this lock. A failure is reported if a source is given.
    fn release_job(&mut self, report: Option<ReleaseSource>) -> ReleaseJob<B> {
        ReleaseJob {
            lock: self.lock.take(),
            source: report.unwrap_or(ReleaseSource::Drop),
            spawner: self.spawner.clone(),
            over: rt::after(self.longest_ttl.as_duration() + TIME_TOLERANCE),
            is_reported: AtomicBool::new(report.is_none()),
            has_failed: AtomicBool::new(false),
        }
    }
}

impl<B: LockBackend> Drop for Lease<B> {
    fn drop(&mut self) {
        if !self.is_released {
            let release = self.release_job(Some(ReleaseSource::Drop));
            self.lock.client_state.clean_up().push(Arc::new(release));
        }
    }
}

/// Whether the connection broke before the answer. A backend does not resend an extend, because only the
/// lease knows which unanswered extends may still arrive.
fn is_connection_lost(error: &LockError) -> bool {
    error.is_outcome_unknown() && error.code() == ErrorCode::ServiceUnavailable
}

/// The answer to an extend of a lock that is over. Nothing is sent.
pub(crate) fn as_not_held(reason: LossReason) -> NotHeld {
    match reason {
        LossReason::Expired | LossReason::MaxHold | LossReason::RenewerPanicked => NotHeld::Expired,
        LossReason::NotHeld | LossReason::RecordLost | LossReason::Released => NotHeld::NotFound,
    }
}
