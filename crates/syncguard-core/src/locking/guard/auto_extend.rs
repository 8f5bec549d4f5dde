//! Auto-extend: the task that renews a lock and, in the end, releases it.
//!
//! One task does both, one after the other, and the guard sends it commands. So no renewal can follow
//! a release, and no second release can go out.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::lease::{Lease, as_not_held};
use super::parting::Parting;
use super::release::ReleaseOutcome;
use super::renewer_channel::{Command, RenewerChannel};
use super::validity::Validity;
use crate::backend::LockBackend;
use crate::client::ReleaseSource;
use crate::client::outage_log::OutageLog;
use crate::contract::loss_reason::LossReason;
use crate::contract::response::ExtendResult;
use crate::rt::{self, Instant, sleep_until};
use crate::value::{ErrorCode, Key, LockError, Ttl};

/// The task that owns the lease of an auto-extended guard.
pub(crate) struct Renewer<B: LockBackend> {
    /// `None` after the release.
    lease: Option<Box<Lease<B>>>,
    key: Key,
    ttl: Ttl,
    validity: Arc<Validity>,
    channel: Arc<RenewerChannel<B>>,
    next_renewal: Instant,
    /// Shared by the renewals of all locks of the backend, to log an outage once.
    episode: OutageLog,
    /// Whether the last renewal failed.
    has_failed: bool,
}

impl<B: LockBackend> Renewer<B> {
    /// A renewer for a lock whose acquire was sent at `sent`.
    pub(crate) fn new(
        lease: Box<Lease<B>>,
        validity: Arc<Validity>,
        channel: Arc<RenewerChannel<B>>,
        sent: Instant,
    ) -> Self {
        let (key, ttl) = (lease.lock.key.clone(), lease.ttl);
        let state = &lease.lock.client_state;
        let next_renewal = state.renewal_after(sent, renewal_interval(ttl));
        let episode = state.renewals().clone();
        Self {
            lease: Some(lease),
            key,
            ttl,
            validity,
            channel,
            next_renewal,
            episode,
            has_failed: false,
        }
    }

    /// Renews until the guard asks for the release.
    ///
    /// Every auto-extended lock has a task that waits here, so its future holds only the wait. The state
    /// and the rare steps are boxed.
    pub(crate) async fn run(mut self: Box<Self>) {
        loop {
            let command = match self.wake_at() {
                Some(wake_at) => tokio::select! {
                    biased;
                    command = self.channel.receive() => Some(command),
                    () = sleep_until(wake_at) => None,
                },
                // The lock is over: there are no more renewals, but the guard still asks for the release.
                None => Some(Box::pin(self.channel.receive()).await),
            };
            match command {
                None => Box::pin(self.on_timer()).await,
                Some(Command::Extend(ttl, answer)) => {
                    let result = Box::pin(self.extend_on_request(ttl)).await;
                    // The guard may have stopped waiting; the extend counts all the same.
                    let _ = answer.send(result);
                }
                Some(Command::Release(parting, source, answer, _unfinished)) => {
                    return Box::pin(self.release(parting, source, answer)).await;
                }
                Some(Command::Abandon(_unfinished)) => {
                    // The dropped lease joins the clean-up before the command stops counting as unfinished.
                    drop(self.lease.take());
                    return;
                }
            }
        }
    }

    async fn release(
        mut self: Box<Self>,
        parting: Parting,
        source: ReleaseSource,
        answer: oneshot::Sender<ReleaseOutcome>,
    ) {
        let Some(mut lease) = self.lease.take() else { return };
        lease.part(parting, self.validity.expires_at());
        if let Err(mut unheard) = answer.send(lease.release(source).await) {
            unheard.report();
        }
    }

    /// When the next step is due; `None` if the lock is over.
    fn wake_at(&self) -> Option<Instant> {
        let until = self.validity.until().ok()?;
        Some(until.min(self.next_renewal))
    }

    async fn on_timer(&mut self) {
        let now = Instant::now();
        if self.validity.check().is_err() {
            self.say_lost();
        } else if self.next_renewal <= now {
            self.renew(now).await;
        }
    }

    /// One attempt to renew, together with other locks unless the last one has failed. After an error, further attempts follow until the TTL is over, unless the error says that the
    /// record is lost.
    async fn renew(&mut self, now: Instant) {
        let Ok(until) = self.validity.until() else { return };
        // Half of the time that is left, so that an attempt that hangs leaves time for another.
        let give_up = now + until.saturating_duration_since(now) / 2;
        match self.attempt(self.ttl, !self.has_failed, now, give_up).await {
            Some(Err(error)) if !error.is_record_lost() => self.say_failed(&error),
            Some(Ok(ExtendResult::Extended { .. })) => self.say_renewed(),
            _ => {}
        }
    }

    /// Warns once for all locks of the backend; else each lock would warn several times a second.
    fn say_failed(&mut self, error: &LockError) {
        let is_news = self.episode.begins();
        if is_news && !self.has_failed {
            tracing::warn!(
                error_code = error.code().as_str(),
                %error,
                key_hash = %self.key.hash_id(),
                "a lock was not renewed; it is tried again, and more of that is logged at debug"
            );
        } else {
            tracing::debug!(
                error_code = error.code().as_str(),
                %error,
                key_hash = %self.key.hash_id(),
                "a lock was not renewed; it is tried again"
            );
        }
        self.has_failed = true;
    }

    fn say_renewed(&mut self) {
        if std::mem::take(&mut self.has_failed) && self.episode.ends() {
            tracing::info!("locks are renewed again");
        }
    }

    async fn extend_on_request(&mut self, ttl: Ttl) -> Result<ExtendResult, LockError> {
        let until = match self.validity.check() {
            Ok(until) => until,
            Err(reason) => return Ok(ExtendResult::NotHeld(as_not_held(reason))),
        };
        let now = Instant::now();
        self.ttl = ttl;
        // After this time the lock is lost, and the caller must hear that in time.
        let give_up = until.min(now + ttl.as_duration());
        self.attempt(ttl, false, now, give_up).await.unwrap_or_else(|| Err(LockError::aborted()))
    }

    /// Extends the lock and plans the next renewal; `None` if the guard asks for the release instead.
    async fn attempt(
        &mut self,
        ttl: Ttl,
        with_others: bool,
        now: Instant,
        give_up: Instant,
    ) -> Option<Result<ExtendResult, LockError>> {
        let capped = self.capped(ttl, now);
        let lease = self.lease.as_mut()?;
        let mut is_cut_off = false;
        let result = tokio::select! {
            biased;
            () = self.channel.release_requested() => return None,
            result = lease.extend(capped, with_others, &self.validity) => result,
            // An extend without an answer can shorten the lock.
            () = self.validity.time_is_over() => {
                let reason = self.validity.check().err().unwrap_or(LossReason::Expired);
                Ok(ExtendResult::NotHeld(as_not_held(reason)))
            }
            () = sleep_until(give_up) => {
                is_cut_off = true;
                let says = "no answer to the extend in time";
                Err(LockError::new(ErrorCode::NetworkTimeout, says).with_unknown_outcome())
            }
        };
        self.validity.extend_ended(&result, is_cut_off);
        match result {
            // A TTL that was cut lasts until the cap, so no renewal follows.
            Ok(ExtendResult::Extended { .. }) if capped < ttl => {
                self.next_renewal = now + capped.as_duration();
            }
            Ok(ExtendResult::Extended { .. }) => {
                let state = &lease.lock.client_state;
                self.next_renewal = state.renewal_after(now, renewal_interval(ttl));
            }
            // The lease has ended the lock, or its time was over before the answer came.
            Ok(ExtendResult::NotHeld(_)) => self.say_lost(),
            Err(ref error) if error.is_record_lost() => self.say_lost(),
            Ok(ExtendResult::Mismatch { .. }) | Err(_) => {
                self.next_renewal = rt::after(retry_pause(ttl));
            }
        }
        Some(result)
    }

    fn say_lost(&self) {
        if let Err(reason) = self.validity.check()
            && !self.validity.logs_loss()
        {
            let error = self.validity.failure();
            let error = error.as_ref().map(tracing::field::display);
            tracing::warn!(key_hash = %self.key.hash_id(), ?reason, error, "a lock that was kept alive is lost");
        }
    }

    /// The TTL, cut to the time until the cap.
    fn capped(&self, ttl: Ttl, now: Instant) -> Ttl {
        let Some(cap) = self.validity.cap else { return ttl };
        let left = Ttl::new(cap.saturating_duration_since(now)).unwrap_or(Ttl::MIN);
        ttl.min(left)
    }
}

/// A renewer that ends before its guard, with its runtime or by a panic, returns the lease to the guard.
impl<B: LockBackend> Drop for Renewer<B> {
    fn drop(&mut self) {
        let lease = self.lease.take();
        if lease.is_some() {
            self.validity.renewer_ended();
        }
        self.channel.close(lease);
    }
}

/// Two renewals may fail before the TTL is over.
fn renewal_interval(ttl: Ttl) -> Duration {
    ttl.as_duration() / 3
}

fn retry_pause(ttl: Ttl) -> Duration {
    (ttl.as_duration() / 20).clamp(Duration::from_millis(1), Duration::from_secs(1))
}
