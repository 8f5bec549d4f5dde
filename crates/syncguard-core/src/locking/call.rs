//! One call that takes a lock: its attempts, and the error when no further attempt follows.

use std::time::Duration;

use super::acquisition::AcquisitionOptions;
use super::answers::{Answers, unanswered};
use super::cancellable::{fires, sleep_unless_cancelled};
use super::config::{LockConfig, Policy};
use super::guard::{Lease, LockGuard, MinHold, Releasable};
use super::observed::ObservedAcquisition;
use super::outage::RideOut;
use super::pauses::Pauses;
use crate::backend::LockBackend;
use crate::cancel;
use crate::client::ClientState;
use crate::client::queue::{LocalHolder, Ticket, Turn, WaitQueues};
use crate::contract::fence_window::{FenceWindow, Refusal};
use crate::contract::info::LockInfo;
use crate::contract::liveness::TIME_TOLERANCE;
use crate::contract::request::{AcquireRequest, LookupBy, LookupRequest};
use crate::contract::response::AcquireResult;
use crate::contract::response::Contention;
use crate::rt::{self, Instant, Spawner};
use crate::value::FenceToken as _;
use crate::value::{ErrorCode, Key, LockError, LockId};

/// The longest time for an optional request: a watch, which must not delay polls, and the name of the holder, which
/// must not delay an error. Within it, most stores answer twice even if they are far away.
pub(super) const ASIDE: Duration = Duration::from_millis(250);

/// The state that the attempts of one acquisition share.
pub(super) struct Call<'a, B> {
    pub(super) backend: &'a B,
    pub(super) key: &'a Key,
    pub(super) policy: &'a Policy,
    defaults: &'a ClientState,
    spawner: Spawner,
}

/// The outcome of an attempt.
pub(super) enum Tried<B: LockBackend> {
    Granted(LockGuard<B>),
    /// Another holder has the lock.
    Busy(Contention),
    /// The lock was granted, but its TTL was over when the answer came. It is being given back.
    Late,
}

impl<'a, B: LockBackend> Call<'a, B> {
    pub(super) fn new(backend: &'a B, config: &'a LockConfig) -> Result<Self, LockError> {
        config.check()?;
        let (key, policy) = (config.key()?, &config.policy);
        cancel::check(policy.cancellation.as_ref())?;
        cancel::check_runtime()?;
        let defaults = backend.client_state();
        defaults.clean_up().go_on();
        Ok(Self { backend, key, policy, defaults, spawner: Spawner::current() })
    }

    pub(super) fn queues(&self) -> &'a WaitQueues {
        self.defaults.queues()
    }

    pub(super) fn observe(&self, lock_id: LockId) -> ObservedAcquisition<'a> {
        ObservedAcquisition::start(self.defaults, self.key, lock_id, self.policy)
    }

    /// How long to wait before the next attempt, if this result is a failure that is ridden out.
    pub(super) fn pause_in_outage(
        &self,
        error: &LockError,
        was_answered: bool,
        outage: &mut Option<Box<RideOut>>,
    ) -> Option<Duration> {
        let ride_out = self.policy.ride_out;
        if ride_out.is_zero() {
            return None;
        }
        outage
            .get_or_insert_with(|| Box::new(RideOut::new(ride_out)))
            .pause(error.code(), was_answered)
    }

    /// Waits for this long. Returns `Aborted` if the token fires.
    pub(super) async fn sleep(&self, pause: Duration) -> Result<(), LockError> {
        sleep_unless_cancelled(self.policy.cancellation.as_ref(), rt::after(pause)).await
    }

    /// Waits until the ticket is that of the head, and returns what the head does next.
    ///
    /// # Errors
    ///
    /// `Aborted` when the token fires. After the deadline, the error for a caller that timed out in the queue.
    pub(super) async fn wait_to_be_head(
        &self,
        ticket: &mut Ticket,
        deadline: Instant,
    ) -> Result<Turn, LockError> {
        let head = tokio::select! {
            biased;
            () = fires(self.policy.cancellation.as_ref()) => return Err(LockError::aborted()),
            turn = ticket.become_head(deadline) => turn,
        };
        head.ok_or_else(|| self.queue_timeout_error(ticket.is_contended(Instant::now())))
    }

    /// One attempt, unless other callers of this process wait for the lock.
    pub(super) async fn once_unless_queued(
        &self,
        observed: &mut ObservedAcquisition<'_>,
    ) -> Result<Tried<B>, LockError> {
        let now = Instant::now();
        if self.queues().has_waiters(self.key, now) {
            return Ok(Tried::Busy(Contention::default()));
        }
        observed.on_head();
        self.once(observed.next_attempt(), now, None, false).await
    }

    /// One attempt within the time limit, for an acquire without retries.
    pub(super) async fn once_within_limit(
        &self,
        observed: &mut ObservedAcquisition<'_>,
    ) -> Result<LockGuard<B>, LockError> {
        let options = &self.policy.acquisition;
        let mut answers = Answers::default();
        let tried = rt::within(options.timeout, self.once_unless_queued(observed));
        match tried.await.transpose()? {
            Some(Tried::Granted(guard)) => return Ok(guard),
            Some(Tried::Busy(contention)) => answers.set_free_at(contention, Instant::now()),
            Some(Tried::Late) => answers.was_late = true,
            None => answers.on_timeout(options.timeout),
        }
        answers.attempts = observed.attempts();
        Err(self.timeout_error(&Pauses::new(options), &answers))
    }

    /// One attempt, sent at this time. If it is granted, the ticket gives up its place in the queue.
    pub(super) async fn once(
        &self,
        lock_id: LockId,
        sent: Instant,
        ticket: Option<&mut Ticket>,
        was_busy: bool,
    ) -> Result<Tried<B>, LockError> {
        let request = AcquireRequest { was_busy, ..self.request(lock_id) };
        let tried = self.once_with(request, sent, ticket).await?;
        tried.map_err(|_| {
            LockError::internal("the backend refused a request that has no fence window")
        })
    }

    /// One attempt with this window for its fence.
    pub(super) async fn once_in_window(
        &self,
        lock_id: LockId,
        sent: Instant,
        window: FenceWindow,
    ) -> Result<Result<Tried<B>, Refusal>, LockError> {
        let request = AcquireRequest { fence_window: Some(window), ..self.request(lock_id) };
        self.once_with(request, sent, None).await
    }

    fn request(&self, lock_id: LockId) -> AcquireRequest {
        AcquireRequest {
            key: self.key.clone(),
            ttl: self.policy.ttl,
            lock_id,
            holder: self.policy.own_holder(self.defaults),
            fence_window: None,
            was_busy: false,
            cancellation: self.policy.cancellation.clone(),
        }
    }

    async fn once_with(
        &self,
        request: AcquireRequest,
        sent: Instant,
        ticket: Option<&mut Ticket>,
    ) -> Result<Result<Tried<B>, Refusal>, LockError> {
        let policy = self.policy;
        let acquired = match self.backend.acquire(request).await? {
            AcquireResult::Acquired(acquired) => acquired,
            AcquireResult::Busy(contention) => return Ok(Ok(Tried::Busy(contention))),
            AcquireResult::Refused(refusal) => return Ok(Err(refusal)),
        };
        let ttl = policy.ttl.as_duration();
        let now = Instant::now();
        let cap = policy.auto_extend.as_ref().and_then(|plan| plan.max_hold);
        let is_late = sent + cap.map_or(ttl, |cap| cap.min(ttl)) <= now;
        let holder = (!is_late).then(|| {
            let until = now + ttl + TIME_TOLERANCE;
            match ticket {
                Some(ticket) => ticket.on_granted(until, now),
                None => LocalHolder::unqueued(self.queues(), self.key, until, now),
            }
        });
        let lock = Releasable {
            backend: self.backend.clone(),
            key: self.key.clone(),
            lock_id: acquired.lock_id,
            client_state: self
                .defaults
                .or(policy.on_release_error.as_ref(), policy.dispose_timeout),
            local_holder: holder,
            min_hold: None,
            counter: None,
        };
        let mut lease = Lease::new(lock, policy.ttl, self.spawner.clone());
        if is_late {
            // No holder can rely on this lease any more. The drop releases it.
            drop(lease);
            return Ok(Ok(Tried::Late));
        }
        if let Some(fence) = acquired.fence.fence()
            && let Some(before) = self.defaults.fences().note(self.key, fence)
        {
            tracing::error!(
                key_hash = %self.key.hash_id(),
                %fence,
                %before,
                "the fence of this lock is not above an earlier one that this process was granted for the key: the \
                 store has lost its counters (a FLUSHDB, a restored backup, a failover), or this is another store; \
                 raise the counter above every fence that is stored elsewhere"
            );
        }
        if let Some(min_hold) = policy.min_hold {
            lease.set_min_hold(MinHold::new(min_hold, acquired.expires_at));
        }
        tracing::debug!(
            key_hash = %self.key.hash_id(),
            fence = acquired.fence.fence().map(tracing::field::display),
            holder = policy.holder(self.defaults).label(),
            "acquired"
        );
        Ok(Ok(Tried::Granted(LockGuard::new(lease, acquired, sent, policy))))
    }

    /// The error for a caller that makes no further attempt.
    pub(super) fn timeout_error(&self, pauses: &Pauses<'_>, answers: &Answers) -> LockError {
        if answers.is_unanswered && !answers.last_is_contention {
            return unanswered(self.key, pauses.options.timeout);
        }
        // Even if the last answer was "locked": the holder can be our own late grant, which is being
        // given back.
        if answers.was_late {
            return self.late_error();
        }
        let AcquisitionOptions { timeout, max_retries, .. } = *pauses.options;
        let attempts = match answers.attempts {
            1 => "1 attempt".to_owned(),
            attempts => format!("{attempts} attempts"),
        };
        // `u32::MAX` is no limit.
        let retries = match max_retries {
            u32::MAX => String::new(),
            1 => " and 1 retry".to_owned(),
            retries => format!(" and {retries} retries"),
        };
        let free = match answers.holder_time_left(Instant::now()) {
            Some(left) => format!("; without an extend it is free in {left:?}"),
            None => String::new(),
        };
        let message = format!(
            "the lock was still held after {attempts}; the limit is {timeout:?}{retries} (with_wait_up_to){free}"
        );
        LockError::new(ErrorCode::AcquisitionTimeout, message).with_key(self.key)
    }

    /// Adds the holder of the lock to the error of a caller that has waited in vain, if the store says it soon. A caller
    /// that does not wait gets its answer without a second request.
    pub(super) async fn with_holder(&self, error: LockError) -> LockError {
        if self.policy.acquisition.max_retries == 0 {
            return error;
        }
        let by = LookupBy::Key(self.key.clone());
        let request = LookupRequest { by, key_hint: None, cancellation: None };
        match rt::within(ASIDE, self.backend.lookup(request)).await {
            Some(Ok(Some(LockInfo { holder: Some(holder), .. }))) => error.with_holder(holder),
            _ => error,
        }
    }

    /// The error for a caller that timed out in the queue and never made an attempt.
    pub(super) fn queue_timeout_error(&self, is_contended: bool) -> LockError {
        let timeout = self.policy.acquisition.timeout;
        let (code, message) = if is_contended {
            let message = format!(
                "the lock was still held, and other waiters of this process stood before it; \
                 the limit is {timeout:?} (with_wait_up_to)"
            );
            (ErrorCode::AcquisitionTimeout, message)
        } else {
            let message = format!(
                "the store did not answer the first waiter of this process within the acquisition \
                 limit of {timeout:?}; nothing was sent for this lock"
            );
            (ErrorCode::NetworkTimeout, message)
        };
        LockError::new(code, message).with_key(self.key)
    }

    pub(super) fn late_error(&self) -> LockError {
        LockError::new(
            ErrorCode::NetworkTimeout,
            format!(
                "the lock was granted, but the answer took longer than the TTL of {:?}; it is given back",
                self.policy.ttl.as_duration()
            ),
        )
        .with_key(self.key)
    }
}
