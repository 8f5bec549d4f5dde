//! Auto-extend: the task that renews a lock and, in the end, releases it.
//!
//! One task does both, one after the other. Whatever the guard wants, it asks the task; so no
//! renewal can follow a release, and no second release can go out.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::lease::Lease;
use super::status::{LossReason, Status};
use crate::rt::{self, Instant, Mutex, sleep_until};
use crate::{
    ErrorCode, ExtendResult, LockBackend, LockError, NotHeld, ReleaseResult, ReleaseSource, Ttl,
};

/// The guard's line to its keeper. It holds one command, because a guard waits for each answer or
/// no longer wants it.
#[derive(Default)]
pub(crate) struct Link {
    slot: Mutex<Slot>,
    sent: Notify,
}

#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    Command(Command),
    /// The keeper is gone, and with it whoever would answer.
    Closed,
}

pub(crate) enum Command {
    Extend(Ttl, oneshot::Sender<Result<ExtendResult, LockError>>),
    Release(oneshot::Sender<Result<ReleaseResult, LockError>>),
    /// Nobody wants the answer; the sender only says when it is done.
    Dispose(ReleaseSource, oneshot::Sender<()>),
}

impl Link {
    pub(crate) fn send(&self, command: Command) {
        let mut slot = self.slot.lock();
        if !matches!(*slot, Slot::Closed) {
            *slot = Slot::Command(command);
        }
        drop(slot);
        self.sent.notify_one();
    }

    async fn receive(&self) -> Command {
        loop {
            // Nobody else takes commands, and only the receiver closes the link.
            if let Slot::Command(command) = std::mem::take(&mut *self.slot.lock()) {
                return command;
            }
            self.sent.notified().await;
        }
    }

    /// Waits for the command that ends the keeper, without taking it.
    async fn wants_release(&self) {
        loop {
            if matches!(
                *self.slot.lock(),
                Slot::Command(Command::Release(_) | Command::Dispose(..))
            ) {
                return;
            }
            self.sent.notified().await;
        }
    }
}

/// The keeper's end of the link: a guard must not wait for a keeper that went down with its runtime.
struct Receiver(Arc<Link>);

impl Drop for Receiver {
    fn drop(&mut self) {
        *self.0.slot.lock() = Slot::Closed;
    }
}

pub(crate) struct Keeper<B> {
    lease: Lease<B>,
    status: Arc<Status>,
    link: Receiver,
    next_renewal: Instant,
}

impl<B: LockBackend> Keeper<B> {
    /// A keeper for a lock that was asked for at `sent`.
    pub(crate) fn new(
        lease: Lease<B>,
        status: Arc<Status>,
        link: Arc<Link>,
        sent: Instant,
    ) -> Self {
        let next_renewal = sent + renewal_interval(lease.ttl);
        Self { lease, status, link: Receiver(link), next_renewal }
    }

    /// Renews until the guard asks for the end.
    ///
    /// The task of every held lock waits here, so only the waiting is part of its future; the state
    /// and what is done now and then are boxed.
    pub(crate) async fn run(mut self: Box<Self>) {
        loop {
            let command = match self.wake_at() {
                Some(wake_at) => tokio::select! {
                    biased;
                    command = self.link.0.receive() => Some(command),
                    () = sleep_until(wake_at) => None,
                },
                // The lock is over: no more renewals, but the release is still to come.
                None => Some(Box::pin(self.link.0.receive()).await),
            };
            match command {
                None => Box::pin(self.on_timer()).await,
                Some(Command::Extend(ttl, answer)) => {
                    let result = Box::pin(self.extend_on_request(ttl)).await;
                    // The guard may have stopped waiting; the lock is extended all the same.
                    let _ = answer.send(result);
                }
                Some(Command::Release(answer)) => return Box::pin(self.release(answer)).await,
                Some(Command::Dispose(source, done)) => {
                    Box::pin(self.lease.dispose(source)).await;
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    async fn release(self: Box<Self>, answer: oneshot::Sender<Result<ReleaseResult, LockError>>) {
        if let Err(Err(error)) = answer.send(self.lease.release().await) {
            self.lease.report(&error, ReleaseSource::Drop);
        }
    }

    /// The next moment at which something must be done; `None` once the lock is over.
    fn wake_at(&self) -> Option<Instant> {
        let until = self.status.until().ok()?;
        Some(until.min(self.next_renewal))
    }

    async fn on_timer(&mut self) {
        let now = Instant::now();
        if let Err(reason) = self.status.check() {
            self.lose(reason);
        } else if self.next_renewal <= now {
            self.renew(now).await;
        }
    }

    /// One attempt to renew. An error is not a loss: the next attempt follows until the TTL is over.
    async fn renew(&mut self, now: Instant) {
        let Ok(until) = self.status.until() else { return };
        // Half of what is left, so that an attempt that hangs leaves time for another.
        let give_up = now + until.saturating_duration_since(now) / 2;
        if let Some(Err(error)) = self.attempt(self.lease.ttl, now, give_up).await {
            tracing::warn!(
                code = error.code().as_str(),
                %error,
                key = %self.lease.key.hash_id(),
                "a lock was not renewed; trying again"
            );
        }
    }

    async fn extend_on_request(&mut self, ttl: Ttl) -> Result<ExtendResult, LockError> {
        let until = match self.status.until() {
            Ok(until) => until,
            Err(reason) => return Ok(ExtendResult::NotHeld(as_not_held(reason))),
        };
        let now = Instant::now();
        self.lease.ttl = ttl;
        // Past this point the lock is lost, and that must be said in time.
        let give_up = until.min(now + ttl.as_duration());
        self.attempt(ttl, now, give_up).await.unwrap_or_else(|| Err(LockError::aborted()))
    }

    /// Extends the lock and plans the next renewal; `None` if the guard wants its release instead.
    async fn attempt(
        &mut self,
        ttl: Ttl,
        now: Instant,
        give_up: Instant,
    ) -> Option<Result<ExtendResult, LockError>> {
        let capped = self.capped(ttl, now);
        let result = tokio::select! {
            biased;
            () = self.link.0.wants_release() => return None,
            result = self.lease.extend(capped, &self.status) => result,
            () = sleep_until(give_up) => Err(LockError::new(
                ErrorCode::NetworkTimeout,
                "no answer to the extend in time",
            )
            .with_unknown_outcome()),
        };
        match result {
            // A TTL that was cut lasts until the cap: there is nothing left to renew.
            Ok(ExtendResult::Extended { .. }) if capped < ttl => {
                self.next_renewal = now + capped.as_duration();
            }
            Ok(ExtendResult::Extended { .. }) => self.next_renewal = now + renewal_interval(ttl),
            Ok(ExtendResult::NotHeld(_)) => self.lose(LossReason::NotHeld),
            Err(_) => self.next_renewal = rt::after(retry_pause(ttl)),
        }
        Some(result)
    }

    fn lose(&self, reason: LossReason) {
        self.status.end(reason);
        tracing::warn!(key = %self.lease.key.hash_id(), ?reason, "a lock that was kept alive is lost");
    }

    /// The TTL cut to what the cap leaves.
    fn capped(&self, ttl: Ttl, now: Instant) -> Ttl {
        let Some(cap) = self.status.cap() else { return ttl };
        let left = Ttl::new(cap.saturating_duration_since(now)).unwrap_or(Ttl::MIN);
        ttl.min(left)
    }
}

/// Why an extend of a lock that is over is not even sent.
pub(crate) fn as_not_held(reason: LossReason) -> NotHeld {
    match reason {
        LossReason::Expired | LossReason::MaxHold => NotHeld::Expired,
        LossReason::NotHeld | LossReason::Released => NotHeld::NotFound,
    }
}

/// Two renewals may fail before the TTL is over.
fn renewal_interval(ttl: Ttl) -> Duration {
    ttl.as_duration() / 3
}

fn retry_pause(ttl: Ttl) -> Duration {
    (ttl.as_duration() / 20).clamp(Duration::from_millis(1), Duration::from_secs(1))
}
