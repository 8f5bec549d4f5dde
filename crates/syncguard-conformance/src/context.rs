//! Connections, time and limits for the cases.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use syncguard_core::contract::TIME_TOLERANCE;
use syncguard_core::{AcquisitionOptions, Backoff, DynBackend, Fence, Key, LockId};
use tokio::time::Instant;

use crate::Late;
use crate::client::{Client, Granted, Seen};
use crate::dyn_harness::DynHarness;
use crate::outcome::{Checked, Outcome, Stop, Unexpected};
use crate::tasks::pause;

/// Outlives every case, which may take three minutes, so such a lock never ends by its TTL.
pub(crate) const LONG: Duration = Duration::from_secs(240);

/// The TTL of a lock that has to expire. It is small, because the wait is the TTL plus the tolerance.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// How long work in the background may take on a healthy store. A busy machine needs some of this time; the TTL of a
/// lock is much longer.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// How far the time between two readings of a store's clock may be from that of tokio's clock.
pub(crate) const CLOCK_SLACK: Duration = Duration::from_millis(100);

/// How often a case runs if its steps came too late to prove anything.
pub(crate) const ATTEMPTS: usize = 30;

/// A held lock.
pub(crate) struct HeldLock {
    /// Its holder.
    pub(crate) client: Client,
    /// Another connection.
    pub(crate) other: Client,
    pub(crate) key: Key,
    pub(crate) lock: Granted,
    /// The lock as the lookups showed it when it had been taken.
    pub(crate) before: Seen,
}

/// One case's view of the harness.
pub(crate) struct Context<'h> {
    harness: &'h dyn DynHarness,
}

impl<'h> Context<'h> {
    pub(crate) const fn new(harness: &'h dyn DynHarness) -> Self {
        Self { harness }
    }

    pub(crate) fn has_paused_clock(&self) -> bool {
        self.harness.has_paused_clock()
    }

    pub(crate) fn fences(&self) -> bool {
        self.harness.fences()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::new(self.harness.connect().await, self.fences())
    }

    /// A handle and a clone of it.
    pub(crate) async fn clones(&self) -> [Client; 2] {
        self.harness.connect_and_clone().await.map(|backend| Client::new(backend, self.fences()))
    }

    /// Opens two connections.
    pub(crate) async fn pair(&self) -> (Client, Client) {
        (self.client().await, self.client().await)
    }

    /// Opens connections for several tasks.
    pub(crate) async fn clients(&self, count: usize) -> Vec<Client> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(self.client().await);
        }
        clients
    }

    /// A fresh key, held for [`LONG`], and a second connection.
    pub(crate) async fn held(&self) -> Checked<HeldLock> {
        let (client, other) = self.pair().await;
        let key = fresh_key()?;
        let lock = client.take(&key, LONG).await?;
        let before = client.live(&key, lock.lock_id).await?;
        Ok(HeldLock { client, other, key, lock, before })
    }

    /// A fresh key whose lock has this TTL and has come into its tolerance, with the time since it was asked for.
    pub(crate) async fn in_tolerance(
        &self,
        client: &Client,
        ttl: Duration,
    ) -> Checked<(Key, Granted, Watch<'_>)> {
        let (key, watch) = (fresh_key()?, self.watch());
        let lock = client.take(&key, ttl).await?;
        watch.enter_tolerance(ttl).await;
        Ok((key, lock, watch))
    }

    /// A fresh key whose lock is over.
    pub(crate) async fn expired(&self, client: &Client) -> Checked<(Key, Granted)> {
        let key = fresh_key()?;
        let lock = client.take(&key, SHORT).await?;
        self.outlive(SHORT).await;
        Ok((key, lock))
    }

    pub(crate) async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.harness.set_fence_counter(key, last).await;
    }

    /// Corrupts the stored lock of a key. The case does not apply if the harness cannot do that.
    pub(crate) async fn corrupt(&self, key: &Key) -> Result<(), Stop> {
        if self.harness.corrupt(key).await {
            Ok(())
        } else {
            Err(Stop::NotApplicable("the harness cannot corrupt a stored lock"))
        }
    }

    /// A connection whose requests can be held back. The case does not apply if the harness has none.
    pub(crate) async fn late(&self) -> Result<Late<DynBackend>, Stop> {
        let late = self.harness.connect_late().await;
        late.ok_or(Stop::NotApplicable("the harness cannot hold requests back"))
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.harness.pass(time).await;
    }

    /// Waits until a lock that was taken or extended just now with this TTL is over. With paused time, the wait is
    /// exact to the millisecond.
    pub(crate) async fn outlive(&self, ttl: Duration) {
        self.watch().outlive(ttl).await;
    }

    /// Starts to measure. Call it before the lock is asked for.
    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch { context: self, started: Instant::now() }
    }

    /// Checks that a key whose acquire was given up can be taken long before that lock's TTL is over, and that no
    /// late request disturbs the next holder.
    pub(crate) async fn soon_free(&self, client: &Client, key: &Key) -> Checked<()> {
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

/// A random text of 22 characters that every store accepts and that no other case, run or user has.
pub(crate) fn fresh_text() -> Checked<String> {
    Ok(LockId::generate()?.expose().to_owned())
}

/// A random key that no other case, run or user has.
pub(crate) fn fresh_key() -> Checked<Key> {
    Ok(Key::new(format!("conformance-{}", fresh_text()?))?)
}

/// The options of a caller that asks for a held key again and again, for two minutes.
pub(crate) fn polling_every(pause: Duration) -> AcquisitionOptions {
    AcquisitionOptions::new()
        .with_backoff(Backoff::Fixed)
        .with_retry_delay(pause)
        .with_max_retries(100_000)
        .with_timeout(LONG / 2)
}

/// Runs a future, and returns the largest delay of this runtime's timers and of answers to the client meanwhile. The
/// backend's background work was delayed as much.
pub(crate) async fn with_lateness<T>(
    client: &Client,
    work: impl Future<Output = T>,
) -> Checked<(T, Duration)> {
    const TICK: Duration = Duration::from_millis(50);
    let (mut work, key) = (pin!(work), fresh_key()?);
    let (mut latest, mut held) = (Duration::ZERO, None);
    loop {
        let due = Instant::now() + TICK;
        // A store can answer reads at once while each of its writes waits for a busy disk.
        let asked = async {
            tokio::time::sleep_until(due).await;
            if let Some(lock_id) = held {
                client.extend(lock_id, LONG).await.is_ok()
            } else {
                held = client.take(&key, LONG).await.ok().map(|lock| lock.lock_id);
                held.is_some()
            }
        };
        tokio::select! {
            biased;
            done = &mut work => return Ok((done, latest.max(due.elapsed()))),
            _ = asked => latest = latest.max(due.elapsed()),
        }
    }
}

/// Measures a case by tokio's clock.
pub(crate) struct Watch<'b> {
    context: &'b Context<'b>,
    started: Instant,
}

impl Watch<'_> {
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until a lock that was taken since the start with this TTL is in its tolerance: to the last millisecond
    /// of it with paused time, else to its middle.
    pub(crate) async fn enter_tolerance(&self, ttl: Duration) {
        let left = if self.context.has_paused_clock() {
            Duration::from_millis(1)
        } else {
            TIME_TOLERANCE / 2
        };
        self.context.pass((ttl + TIME_TOLERANCE).saturating_sub(left)).await;
    }

    /// Returns true if a lock that was taken since the start with this TTL is certainly still in its tolerance. Only
    /// then does an observation before this call prove anything; otherwise the machine was too slow.
    pub(crate) fn within_tolerance(&self, ttl: Duration) -> bool {
        // A store counts whole milliseconds, and its clock may be slewed.
        let slack = Duration::from_millis(if self.context.has_paused_clock() { 1 } else { 20 });
        self.elapsed() + slack <= ttl + TIME_TOLERANCE
    }

    /// Waits until a lock that was taken with this TTL before the start is over.
    pub(crate) async fn outlive(&self, ttl: Duration) {
        // A backend that reads its store's time from answers knows it to some 100 ms while the machine is busy.
        let margin = Duration::from_millis(if self.context.has_paused_clock() { 0 } else { 250 });
        let end = ttl + TIME_TOLERANCE + margin;
        self.context.pass(end.saturating_sub(self.elapsed())).await;
    }
}

/// The result of a timed case that was too slow each time.
#[track_caller]
pub(crate) fn too_slow() -> Stop {
    Stop::too_slow(format!(
        "{ATTEMPTS} attempts were all too slow to say anything about the tolerance"
    ))
}

/// Stops the case if timers or answers were as late as this. A renewal or a request that came too late would prove
/// nothing then.
#[track_caller]
pub(crate) fn in_time(limit: Duration, lateness: Duration) -> Outcome {
    if lateness < limit {
        return Ok(());
    }
    Err(Stop::too_slow(format!("a timer or an answer was late by {lateness:?}")))
}
