//! The work of one member of a fleet.

use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard::contract::{
    AcquireRequest, Acquired, ExtendRequest, Holder, IsLockedRequest, LookupRequest,
    ReleaseRequest, TIME_TOLERANCE,
};
use syncguard::{
    AcquisitionOptions, AutoExtend, CancellationToken, Fence, LockBackend, LockConfig, LockGuard,
    LockInfo, acquire, lock,
};
use syncguard_history::Random;

use crate::registers::Registers;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The number of keys that the fleet shares, each with a register of its own.
    pub(crate) keys: u64,
    pub(crate) ttl: Duration,
    pub(crate) seed: u64,
}

/// The name of a key, and of the register that its lock protects.
pub(crate) fn key(number: u64) -> String {
    format!("counter-{number}")
}

/// The longest TTL of a fleet's lock, if its usual TTL is `ttl`.
pub(crate) fn longest_ttl(ttl: Duration) -> Duration {
    6 * ttl
}

/// Works until the token fires, then finishes the current operation.
///
/// Errors are on the backend's record; here an error only ends a turn.
pub(crate) async fn work<B>(
    backend: &B,
    registers: &Registers,
    plan: &Plan,
    stop: &CancellationToken,
) where
    B: LockBackend<Fence = Fence>,
{
    let mut random = Random::new(plan.seed);
    while !stop.is_cancelled() {
        let key = key(random.below(plan.keys));
        let mut turn = Turn { backend, registers, key: &key, ttl: plan.ttl, random: &mut random };
        let _ = match turn.random.below(100) {
            0..45 => turn.brief().await,
            45..75 => turn.by_hand().await,
            75..85 => turn.long().await,
            85..92 => turn.overslept().await,
            92..95 => turn.undecided().await,
            _ => turn.curious().await,
        };
        tokio::time::sleep(random.millis(2, 25)).await;
    }
}

/// One turn with one key.
struct Turn<'a, B> {
    backend: &'a B,
    registers: &'a Registers,
    key: &'a str,
    ttl: Duration,
    random: &'a mut Random,
}

impl<B: LockBackend<Fence = Fence>> Turn<'_, B> {
    /// The usual way: a lock around the work.
    async fn brief(&mut self) -> Result<()> {
        let (registers, key) = (self.registers, self.key);
        let pause = self.random.millis(1, 10);
        let patient = AcquisitionOptions::new()
            .with_max_retries(8)
            .with_retry_delay(Duration::from_millis(20))
            .with_timeout(Duration::from_secs(1));
        let config = LockConfig::new(key).with_ttl(self.ttl).with_acquisition(patient);
        lock(self.backend, config, async |held| {
            increment(registers, key, held.fence(), pause).await
        })
        .await?
    }

    /// Operation by operation, with an extend in between, and a second release at the end.
    async fn by_hand(&mut self) -> Result<()> {
        let lock = self.ask().await?;
        let lock_id = lock.lock_id;
        increment(self.registers, self.key, lock.fence, self.random.millis(1, 10)).await?;
        if self.random.percent(50) {
            // Longer or shorter than the remaining time.
            let ttl = self.ttl * (1 + u32::from(self.random.percent(50))) / 2;
            let _ = self.backend.extend(ExtendRequest::new(lock_id, ttl)?).await?;
        }
        let found = self.backend.lookup(LookupRequest::by_lock_id(lock_id)).await?;
        check_label(found);
        let _ = self.backend.release(ReleaseRequest::new(lock_id)).await?;
        if self.random.percent(50) {
            let _ = self.backend.extend(ExtendRequest::new(lock_id, self.ttl)?).await?;
        }
        let _ = self.backend.release(ReleaseRequest::new(lock_id)).await?;
        Ok(())
    }

    /// Longer than the TTL, with auto-extend, beside locks of keys without data: their renewals go together.
    async fn long(&mut self) -> Result<()> {
        let [one, other] = [(); 2].map(|()| format!("beside-{}", self.random.below(40)));
        let config = |key: &str| {
            LockConfig::new(key)
                .with_ttl(self.ttl)
                .with_acquisition(AcquisitionOptions::new().with_max_retries(1))
                .with_auto_extend(AutoExtend::new())
        };
        let [one, other] = [one, other].map(|key| config(&key));
        let guard = acquire(self.backend, config(self.key)).await?;
        let (one, other) = (acquire(self.backend, one).await, acquire(self.backend, other).await);
        self.increment_unless_lost(&guard, self.ttl * 5 / 4).await?;
        for guard in [Ok(guard), one, other].into_iter().flatten() {
            let _ = guard.release().await?;
        }
        Ok(())
    }

    /// Leaves the data alone if the lock is lost before.
    async fn increment_unless_lost(&self, guard: &LockGuard<B>, pause: Duration) -> Result<()> {
        tokio::select! {
            result = increment(self.registers, self.key, guard.fence(), pause) => result,
            _ = guard.lost() => Ok(()),
        }
    }

    /// Longer than the TTL and the tolerance, without a look at either. Only the fence protects the data then.
    async fn overslept(&mut self) -> Result<()> {
        let lock = self.ask().await?;
        let pause = self.ttl + TIME_TOLERANCE + self.random.millis(50, 400);
        increment(self.registers, self.key, lock.fence, pause).await?;
        let _ = self.backend.extend(ExtendRequest::new(lock.lock_id, self.ttl)?).await?;
        let _ = self.backend.release(ReleaseRequest::new(lock.lock_id)).await?;
        Ok(())
    }

    /// A short extend and then a long one, also if the first had no answer: a late extend could undo the second.
    async fn undecided(&mut self) -> Result<()> {
        let config = LockConfig::new(self.key)
            .with_ttl(self.ttl)
            .with_acquisition(AcquisitionOptions::new().with_max_retries(1));
        let mut guard = acquire(self.backend, config).await?;
        let _ = guard.extend(self.ttl / 4).await;
        if guard.extend(longest_ttl(self.ttl)).await?.is_extended() {
            let pause = self.ttl * 4 + self.random.millis(0, 500);
            self.increment_unless_lost(&guard, pause).await?;
        }
        let _ = guard.release().await?;
        Ok(())
    }

    /// Only reads.
    async fn curious(&mut self) -> Result<()> {
        self.backend.is_locked(IsLockedRequest::new(self.key)?).await?;
        check_label(self.backend.lookup(LookupRequest::by_key(self.key)?).await?);
        Ok(())
    }

    /// A single acquire, whose note is the id of the lock.
    async fn ask(&self) -> Result<Acquired> {
        let request = AcquireRequest::new(self.key, self.ttl)?;
        let holder = Holder::new("by hand")?.with_note(request.lock_id.expose())?;
        let answer = self.backend.acquire(request.with_holder(holder)).await?;
        answer.acquired().context("a free key")
    }
}

/// A note belongs to its lock: the notes of this fleet are ids of locks.
fn check_label(found: Option<LockInfo>) {
    let Some(found) = found else { return };
    if let Some(note) = found.holder.as_ref().and_then(Holder::note) {
        assert_eq!(note, found.lock_id.expose(), "the note of another lock");
    }
}

/// Reads the value, pauses, and writes the value plus one.
async fn increment(
    registers: &Registers,
    register: &str,
    fence: Fence,
    pause: Duration,
) -> Result<()> {
    if let Some(value) = registers.claim(register, fence).await? {
        tokio::time::sleep(pause).await;
        registers.write(register, fence, value + 1).await?;
    }
    Ok(())
}
