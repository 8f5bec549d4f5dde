//! What one member of a fleet does.

use std::time::Duration;

use anyhow::Result;
use syncguard::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
    TIME_TOLERANCE,
};
use syncguard::{
    AcquisitionOptions, AutoExtend, CancellationToken, Fence, LockBackend, LockConfig, acquire,
    lock,
};

use crate::register::Registers;
use syncguard_history::Random;

/// What is done, and with how much chance.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many keys, each with a register of its own, the fleet shares.
    pub keys: u64,
    /// How long locks live.
    pub ttl: Duration,
    /// Decides on everything that is left to chance.
    pub seed: u64,
}

/// The name of a key, and of the register that its lock protects.
#[must_use]
pub fn key(number: u64) -> String {
    format!("counter-{number}")
}

/// The longest that a lock of a fleet is asked to live, if its locks usually live for `ttl`.
#[must_use]
pub fn longest_ttl(ttl: Duration) -> Duration {
    6 * ttl
}

/// Works until the token fires, and then finishes what it has begun.
///
/// Errors are on the backend's record; here they only mean that a turn is over.
pub async fn work<B>(backend: &B, registers: &Registers, plan: &Plan, stop: &CancellationToken)
where
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

/// One key, once.
struct Turn<'a, B> {
    backend: &'a B,
    registers: &'a Registers,
    key: &'a str,
    ttl: Duration,
    random: &'a mut Random,
}

impl<B: LockBackend<Fence = Fence>> Turn<'_, B> {
    /// As most programs do it.
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

    /// Operation by operation, with an extend in between, and once too often in the end.
    async fn by_hand(&mut self) -> Result<()> {
        let request = AcquireRequest::new(self.key, self.ttl)?;
        let lock_id = request.lock_id;
        let AcquireResult::Acquired(lock) = self.backend.acquire(request).await? else {
            return Ok(());
        };
        increment(self.registers, self.key, lock.fence, self.random.millis(1, 10)).await?;
        if self.random.percent(50) {
            // Longer or shorter than what is left.
            let ttl = self.ttl * (1 + u32::from(self.random.percent(50))) / 2;
            let _ = self.backend.extend(ExtendRequest::new(lock_id, ttl)?).await?;
        }
        let _ = self.backend.lookup(LookupRequest::by_lock_id(lock_id)).await?;
        let _ = self.backend.release(ReleaseRequest::new(lock_id)).await?;
        if self.random.percent(50) {
            let _ = self.backend.extend(ExtendRequest::new(lock_id, self.ttl)?).await?;
        }
        let _ = self.backend.release(ReleaseRequest::new(lock_id)).await?;
        Ok(())
    }

    /// Longer than the TTL, kept alive.
    async fn long(&mut self) -> Result<()> {
        let config = LockConfig::new(self.key)
            .with_ttl(self.ttl)
            .with_acquisition(AcquisitionOptions::new().with_max_retries(1))
            .with_auto_extend(AutoExtend::new());
        let guard = acquire(self.backend, config).await?;
        let pause = self.ttl * 5 / 4;
        tokio::select! {
            result = increment(self.registers, self.key, guard.fence(), pause) => result?,
            _ = guard.lost() => {}
        }
        let _ = guard.release().await?;
        Ok(())
    }

    /// Longer than the TTL and the tolerance, without a look at either: what fences are for.
    async fn overslept(&mut self) -> Result<()> {
        let request = AcquireRequest::new(self.key, self.ttl)?;
        let AcquireResult::Acquired(lock) = self.backend.acquire(request).await? else {
            return Ok(());
        };
        let pause = self.ttl + TIME_TOLERANCE + self.random.millis(50, 400);
        increment(self.registers, self.key, lock.fence, pause).await?;
        let _ = self.backend.extend(ExtendRequest::new(lock.lock_id, self.ttl)?).await?;
        let _ = self.backend.release(ReleaseRequest::new(lock.lock_id)).await?;
        Ok(())
    }

    /// Not for long, and then for long after all, also where the first word was not answered: what an
    /// extend that comes late could undo.
    async fn undecided(&mut self) -> Result<()> {
        let config = LockConfig::new(self.key)
            .with_ttl(self.ttl)
            .with_acquisition(AcquisitionOptions::new().with_max_retries(1));
        let mut guard = acquire(self.backend, config).await?;
        let _ = guard.extend(self.ttl / 4).await;
        if guard.extend(longest_ttl(self.ttl)).await?.is_extended() {
            let pause = self.ttl * 4 + self.random.millis(0, 500);
            tokio::select! {
                result = increment(self.registers, self.key, guard.fence(), pause) => result?,
                _ = guard.lost() => {}
            }
        }
        let _ = guard.release().await?;
        Ok(())
    }

    /// Only looks.
    async fn curious(&mut self) -> Result<()> {
        self.backend.is_locked(IsLockedRequest::new(self.key)?).await?;
        self.backend.lookup(LookupRequest::by_key(self.key)?).await?;
        Ok(())
    }
}

/// Reads, takes its time, and writes one more.
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
