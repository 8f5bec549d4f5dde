//! What every case works with: connections, waiting, and the limits of time.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use syncguard_core::contract::{FenceToken, TIME_TOLERANCE};
use syncguard_core::{Fence, Key, LockBackend, LockId};
use tokio::time::Instant;

use crate::client::Client;
use crate::outcome::{Outcome, Stop, Unexpected};
use crate::tasks::pause;
use crate::{Harness, Late};

/// Outlives every case: what ends such a lock is not its TTL.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The TTL of a lock that is to expire: the tolerance is what costs time, so this may be small.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// Within which what goes on in the background has to end, if the store is healthy. A busy machine
/// needs some of it; a lock that is left to its TTL takes much longer.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// How far two readings of a store's clock may be off what tokio's clock says.
pub(crate) const CLOCK_SLACK: Duration = Duration::from_millis(100);

/// How often a case whose steps came too late to prove anything is tried.
pub(crate) const ATTEMPTS: usize = 30;

/// One case's view of the harness.
pub(crate) struct Context<'h, H> {
    harness: &'h H,
}

impl<'h, H: Harness> Context<'h, H> {
    pub(crate) const FENCES: bool = <<H::Backend as LockBackend>::Fence as FenceToken>::SUPPORTED;

    pub(crate) const fn new(harness: &'h H) -> Self {
        Self { harness }
    }

    pub(crate) async fn client(&self) -> Client<H::Backend> {
        Client::new(self.harness.connect().await)
    }

    /// Two connections.
    pub(crate) async fn pair(&self) -> (Client<H::Backend>, Client<H::Backend>) {
        (self.client().await, self.client().await)
    }

    /// Connections to spread tasks over.
    pub(crate) async fn clients(&self, count: usize) -> Vec<Client<H::Backend>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(self.client().await);
        }
        clients
    }

    pub(crate) async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.harness.set_fence_counter(key, last).await;
    }

    /// Corrupts the stored lock of a key, or ends the case where the store cannot hold such a thing.
    pub(crate) async fn corrupt(&self, key: &Key) -> Result<(), Stop> {
        if self.harness.corrupt(key).await {
            Ok(())
        } else {
            Err(Stop::NotApplicable("the harness cannot corrupt a stored lock"))
        }
    }

    /// A connection whose requests can be held back, or the end of the case where there is no such.
    pub(crate) async fn late(&self) -> Result<Late<H::Backend>, Stop> {
        let late = self.harness.connect_late().await;
        late.ok_or(Stop::NotApplicable("the harness cannot hold requests back"))
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.harness.pass(time).await;
    }

    /// Waits until a lock that was taken or extended just now with this TTL is not live any more:
    /// not a millisecond longer than it has to be if time is paused.
    pub(crate) async fn outlive(&self, ttl: Duration) {
        self.watch().outlive(ttl).await;
    }

    /// Starts measuring; to be called before the lock is asked for.
    pub(crate) fn watch(&self) -> Watch<'_, H> {
        Watch { context: self, started: Instant::now() }
    }

    /// Checks that a key whose lock was given up on the way can be taken long before that lock's
    /// TTL is over, and that nothing still on its way disturbs the next holder.
    pub(crate) async fn soon_free(
        &self,
        client: &Client<H::Backend>,
        key: &Key,
    ) -> Result<(), Unexpected> {
        let started = Instant::now();
        let next = loop {
            if let Some(granted) = client.acquire(key, LONG).await? {
                break granted;
            }
            if started.elapsed() > SOON {
                let message = format!("a lock that was given up is still held after {SOON:?}");
                return Err(Unexpected::new(message));
            }
            pause(10).await;
        };
        pause(20).await;
        client.released(next.lock_id).await?;
        while client.is_locked(key).await? {
            if started.elapsed() > SOON {
                return Err(Unexpected::new("a lock that was given up came back later"));
            }
            pause(10).await;
        }
        Ok(())
    }
}

/// Fresh text that no other case, run or user has: 22 characters that no store minds.
pub(crate) fn fresh_text() -> Result<String, Unexpected> {
    Ok(LockId::generate()?.expose().to_owned())
}

/// A key that no other case, run or user has.
pub(crate) fn fresh_key() -> Result<Key, Unexpected> {
    Ok(Key::new(format!("conformance-{}", fresh_text()?))?)
}

/// Does something, and says how late timers of this runtime were at the most meanwhile: as late came
/// whatever the backend did in the background.
pub(crate) async fn with_lateness<T>(work: impl Future<Output = T>) -> (T, Duration) {
    const TICK: Duration = Duration::from_millis(20);
    let mut work = pin!(work);
    let mut latest = Duration::ZERO;
    loop {
        let due = Instant::now() + TICK;
        tokio::select! {
            biased;
            done = &mut work => return (done, latest.max(due.elapsed())),
            () = tokio::time::sleep_until(due) => latest = latest.max(due.elapsed()),
        }
    }
}

/// Measures a case by tokio's clock.
pub(crate) struct Watch<'b, H> {
    context: &'b Context<'b, H>,
    started: Instant,
}

impl<H: Harness> Watch<'_, H> {
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until a lock taken since the start with this TTL is in its tolerance: to its last
    /// millisecond if time is paused, else to the middle.
    pub(crate) async fn enter_tolerance(&self, ttl: Duration) {
        let left = if H::PAUSED_CLOCK { Duration::from_millis(1) } else { TIME_TOLERANCE / 2 };
        self.context.pass((ttl + TIME_TOLERANCE).saturating_sub(left)).await;
    }

    /// Whether a lock taken since the start with this TTL cannot have left its tolerance yet. What
    /// was seen before a `true` proves something; otherwise the machine was too slow.
    pub(crate) fn within_tolerance(&self, ttl: Duration) -> bool {
        // A store counts whole milliseconds, and its clock may be slewed.
        let slack = Duration::from_millis(if H::PAUSED_CLOCK { 1 } else { 20 });
        self.elapsed() + slack <= ttl + TIME_TOLERANCE
    }

    /// Waits until a lock that was taken with this TTL before the start is not live any more.
    pub(crate) async fn outlive(&self, ttl: Duration) {
        let margin = Duration::from_millis(if H::PAUSED_CLOCK { 0 } else { 50 });
        let end = ttl + TIME_TOLERANCE + margin;
        self.context.pass(end.saturating_sub(self.elapsed())).await;
    }
}

/// A timed case that never was quick enough.
#[track_caller]
pub(crate) fn too_slow() -> Stop {
    Stop::too_slow(format!(
        "{ATTEMPTS} attempts were all too slow to say anything about the tolerance"
    ))
}

/// Nothing can be said of renewals whose timers themselves were late by a third of the TTL, which is
/// when a renewal is due.
#[track_caller]
pub(crate) fn renewals_came_in_time(ttl: Duration, lateness: Duration) -> Outcome {
    if lateness < ttl / 3 {
        return Ok(());
    }
    Err(Stop::too_slow(format!("a timer of the runtime was late by {lateness:?}")))
}
