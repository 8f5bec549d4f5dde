//! What a holder may rely on, and how it learns that it is over.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::observer::Holding;
use crate::rt::{self, Instant, Mutex, Spawner};
use crate::{Fence, FenceToken, LockId, Timestamp};

/// Why a lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The TTL ran out, by the local clock, before the lock was extended.
    Expired,
    /// The store said that the lock is gone.
    NotHeld,
    /// The cap on the total hold of an auto-extended lock was reached.
    MaxHold,
    /// The holder itself released the lock or dropped its guard.
    Released,
}

/// The state that a guard, its keeper and every [`Held`] share.
pub(crate) struct Status {
    phase: Mutex<Phase>,
    over: CancellationToken,
    /// When the lock ends however often it is renewed.
    cap: Option<Instant>,
    /// Whether somebody already makes sure that `over` fires in time.
    watched: AtomicBool,
    /// Who is to hear of the end, if anybody is.
    holding: Option<Box<Holding>>,
}

#[derive(Clone, Copy)]
enum Phase {
    Held { until: Instant, expires_at: Timestamp },
    Over { reason: LossReason, expires_at: Timestamp },
}

impl LossReason {
    /// `"expired"`, `"not-held"`, `"max-hold"` or `"released"`, as telemetry spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NotHeld => "not-held",
            Self::MaxHold => "max-hold",
            Self::Released => "released",
        }
    }
}

impl Status {
    pub(crate) fn new(
        until: Instant,
        expires_at: Timestamp,
        cap: Option<Instant>,
        holding: Option<Box<Holding>>,
    ) -> Self {
        let until = earlier(until, cap);
        Self {
            phase: Mutex::new(Phase::Held { until, expires_at }),
            over: CancellationToken::new(),
            cap,
            watched: AtomicBool::new(false),
            holding,
        }
    }

    /// When the holder must stop, or why it had to.
    pub(crate) fn until(&self) -> Result<Instant, LossReason> {
        match *self.phase.lock() {
            Phase::Held { until, .. } => Ok(until),
            Phase::Over { reason, .. } => Err(reason),
        }
    }

    pub(crate) fn expires_at(&self) -> Timestamp {
        match *self.phase.lock() {
            Phase::Held { expires_at, .. } | Phase::Over { expires_at, .. } => expires_at,
        }
    }

    /// When the lock ends however often it is renewed.
    pub(crate) fn cap(&self) -> Option<Instant> {
        self.cap
    }

    /// The lock lives on, at most until the cap. Changes nothing once it is over: a loss is final.
    ///
    /// The store may keep it for a little longer: what it was asked for was cut to the cap some time
    /// before the request was sent.
    pub(crate) fn renewed(&self, until: Instant, expires_at: Timestamp) {
        let until = earlier(until, self.cap);
        let mut phase = self.phase.lock();
        if let Phase::Held { .. } = *phase {
            *phase = Phase::Held { until, expires_at };
        }
    }

    /// An extend is about to be sent that would end the lock at this time. Until the answer is
    /// here, only the earlier of both ends can be relied on.
    pub(crate) fn extending(&self, requested: Instant) {
        if let Phase::Held { until, .. } = &mut *self.phase.lock() {
            *until = requested.min(*until);
        }
    }

    /// The lock is over. The first reason stands.
    pub(crate) fn end(&self, reason: LossReason) {
        let mut phase = self.phase.lock();
        if let Phase::Held { until, expires_at } = *phase {
            *phase = Phase::Over { reason, expires_at };
            drop(phase);
            self.announce(reason, until);
        }
    }

    /// Tells everyone who waits for the end or wants to hear of it. Called once.
    fn announce(&self, reason: LossReason, until: Instant) {
        self.over.cancel();
        if let Some(holding) = &self.holding {
            holding.end(reason, until, || self.why_it_ends(until));
        }
    }

    /// Ends the lock if its time has come; says when it will, or why it did.
    pub(crate) fn check(&self) -> Result<Instant, LossReason> {
        let mut phase = self.phase.lock();
        match *phase {
            Phase::Over { reason, .. } => Err(reason),
            Phase::Held { until, .. } if Instant::now() < until => Ok(until),
            Phase::Held { until, expires_at } => {
                let reason = self.why_it_ends(until);
                *phase = Phase::Over { reason, expires_at };
                drop(phase);
                self.announce(reason, until);
                Err(reason)
            }
        }
    }

    /// Why a lock ends that ends at this time: the last TTL before the cap is cut to whole milliseconds.
    fn why_it_ends(&self, until: Instant) -> LossReason {
        match self.cap {
            Some(cap) if cap.saturating_duration_since(until) < Duration::from_millis(1) => {
                LossReason::MaxHold
            }
            _ => LossReason::Expired,
        }
    }

    /// Somebody else makes sure from now on that `over` fires in time. Whether that is news.
    pub(crate) fn watch(&self) -> bool {
        !self.watched.swap(true, Ordering::Relaxed)
    }

    /// Waits until the lock is over, whichever way.
    pub(crate) async fn ended(&self) -> LossReason {
        loop {
            match self.check() {
                Err(reason) => return reason,
                Ok(until) => tokio::select! {
                    biased;
                    () = self.over.cancelled() => {}
                    () = rt::sleep_until(until) => {}
                },
            }
        }
    }
}

fn earlier(until: Instant, cap: Option<Instant>) -> Instant {
    cap.map_or(until, |cap| cap.min(until))
}

/// What the work under a lock knows of it: its fence, how long it is safe, and when it is lost.
///
/// Cheap to clone and to send to other tasks; it does not keep the lock. Dropping it does nothing.
#[derive(Clone)]
pub struct Held<F: FenceToken = Fence> {
    pub(crate) status: Arc<Status>,
    fence: F,
    lock_id: LockId,
}

impl<F: FenceToken> Held<F> {
    pub(crate) fn new(status: Arc<Status>, fence: F, lock_id: LockId) -> Self {
        Self { status, fence, lock_id }
    }

    /// The fencing token of this acquisition: a [`Fence`] on a backend that fences. Send it along
    /// with every write.
    #[must_use]
    pub fn fence(&self) -> F {
        self.fence
    }

    /// The id of the lock.
    #[must_use]
    pub fn lock_id(&self) -> LockId {
        self.lock_id
    }

    /// How long the holder may still rely on the lock; zero once it is over.
    ///
    /// Counted on this process's monotonic clock from the moment *before* the acquire or the last
    /// successful extend was sent, so that it never outlasts the store's view. No wall clock is involved.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        match self.status.until() {
            Ok(until) => until.saturating_duration_since(Instant::now()),
            Err(_) => Duration::ZERO,
        }
    }

    /// Whether the lock is over.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.status.check().is_err()
    }

    /// Resolves as soon as the holder may no longer rely on the lock, and says why.
    ///
    /// Without auto-extend that is at the latest when the TTL has run out locally. It also resolves
    /// when the holder gives the lock up itself ([`LossReason::Released`]), so nothing that waits
    /// for it is left behind. The future owns its state: it borrows nothing.
    ///
    /// # Cancel safety
    ///
    /// Safe: call it again at any time.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + use<F> {
        let status = Arc::clone(&self.status);
        async move { status.ended().await }
    }

    /// A token that fires when [`lost`](Self::lost) resolves, for work that takes a token.
    ///
    /// Cancelling it has no effect on the lock.
    #[must_use]
    pub fn lost_token(&self) -> CancellationToken {
        if self.status.watch() {
            let status = Arc::clone(&self.status);
            Spawner::current().spawn(async move {
                status.ended().await;
            });
        }
        self.status.over.child_token()
    }
}

impl<F: FenceToken> fmt::Debug for Held<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("lock_id", &self.lock_id)
            .field("fence", &self.fence)
            .field("valid_for", &self.valid_for())
            .finish()
    }
}
