//! What a member of the fleet does: everything that the library offers.

use std::time::Duration;

use syncguard_core::{
    AcquireRequest, AcquireResult, AcquisitionOptions, AutoExtend, CancellationToken,
    ExtendRequest, Fence, IsLockedRequest, LockBackend, LockConfig, LockError, LookupRequest,
    ReleaseRequest, TIME_TOLERANCE, acquire, lock, try_lock,
};
use syncguard_history::{Answer, Call, Entry, Random, Recorder, Recording};
use syncguard_recipes::{Election, Semaphore, lock_all};
use tokio::time::{Instant, sleep};

use crate::flaw::Flaw;
use crate::line::Line;
use crate::protocol::{Reply, Request};
use crate::registers::Registers;
use crate::twin::Twin;

/// How long locks live.
pub(crate) const TTL: Duration = Duration::from_millis(600);
/// The longest that one is asked to live.
pub(crate) const LONGEST: Duration = Duration::from_millis(3600);
/// How many permits the semaphore has.
pub(crate) const PERMITS: u32 = 3;
pub(crate) const SEMAPHORE: &str = "semaphore";

type Backend = Recording<Line<Twin>>;

/// One of a member's tasks.
pub(crate) struct Worker {
    pub(crate) backend: Backend,
    pub(crate) twin: Twin,
    pub(crate) recorder: Recorder,
    pub(crate) random: Random,
    pub(crate) keys: usize,
    pub(crate) member: usize,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) stop: CancellationToken,
}

impl Worker {
    /// Works until the token fires, and then finishes what it has begun. Errors are on the record; here they
    /// only mean that a turn is over.
    pub(crate) async fn work(mut self) {
        while !self.stop.is_cancelled() {
            let _ = self.turn().await;
            let pause = self.random.millis(0, 4);
            sleep(pause).await;
        }
    }

    async fn turn(&mut self) -> Result<(), LockError> {
        if self.member == 0 && self.flaw == Some(Flaw::DeafLeader) && self.random.percent(20) {
            return self.lead_deaf().await;
        }
        if self.flaw == Some(Flaw::StaleGrant) && self.random.percent(20) {
            return self.trust_anything().await;
        }
        let is_undecided = self.flaw == Some(Flaw::BlindExtends) && self.random.percent(10);
        // The names of keys are few, so that members meet.
        let number = usize::try_from(self.random.below(self.keys as u64)).unwrap_or(0);
        let key = Registers::name(number);
        match self.random.below(1000) {
            _ if is_undecided => self.undecided(number, key).await,
            0..520 => self.brief(number, key).await,
            520..800 => self.by_hand(number, key).await,
            800..804 => self.long(number, key).await,
            804..806 => self.overslept(number, key).await,
            806..811 => self.undecided(number, key).await,
            811..825 => self.curious(key).await,
            825..885 => self.patient(number, key).await,
            885..915 => self.impatient(key).await,
            915..950 => self.permit().await,
            950..980 => self.several().await,
            980..985 => self.lead().await,
            _ => self.once_a_period().await,
        }
    }

    /// As most programs do it.
    async fn brief(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let pause = self.random.millis(0, 3);
        let patient = AcquisitionOptions::new()
            .with_max_retries(8)
            .with_retry_delay(Duration::from_millis(20))
            .with_timeout(Duration::from_secs(1));
        let config = LockConfig::new(key).with_ttl(TTL).with_acquisition(patient);
        let (twin, recorder) = (&self.twin, &self.recorder);
        lock(&self.backend, config, async |held| {
            increment(twin, recorder, number, held.fence(), pause).await;
        })
        .await
    }

    /// Operation by operation, with an extend in between, and once too often in the end.
    async fn by_hand(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let request = AcquireRequest::new(key, TTL)?;
        let lock_id = request.lock_id;
        let AcquireResult::Acquired(lock) = self.backend.acquire(request).await? else {
            return Ok(());
        };
        let pause = self.random.millis(0, 3);
        increment(&self.twin, &self.recorder, number, lock.fence, pause).await;
        if self.random.percent(50) {
            // Longer or shorter than what is left.
            let ttl = TTL * (1 + u32::from(self.random.percent(50))) / 2;
            let _ = self.backend.extend(ExtendRequest::new(lock_id, ttl)?).await?;
        }
        if self.random.percent(20) {
            let _ = self.backend.lookup(LookupRequest::by_lock_id(lock_id)).await?;
        }
        let _ = self.backend.release(ReleaseRequest::new(lock_id)).await?;
        if self.random.percent(20) {
            let _ = self.backend.extend(ExtendRequest::new(lock_id, TTL)?).await?;
        }
        if self.random.percent(20) {
            let _ = self.backend.release(ReleaseRequest::new(lock_id)).await?;
        }
        Ok(())
    }

    /// Longer than the TTL, kept alive.
    async fn long(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let config = LockConfig::new(key)
            .with_ttl(TTL)
            .with_acquisition(AcquisitionOptions::new().with_max_retries(1))
            .with_auto_extend(AutoExtend::new());
        let guard = acquire(&self.backend, config).await?;
        tokio::select! {
            biased;
            () = increment(&self.twin, &self.recorder, number, guard.fence(), TTL * 5 / 4) => {}
            _ = guard.lost() => {}
        }
        let _ = guard.release().await?;
        Ok(())
    }

    /// Longer than the TTL and the tolerance, without a look at either: what fences are for.
    async fn overslept(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let request = AcquireRequest::new(key, TTL)?;
        let AcquireResult::Acquired(lock) = self.backend.acquire(request).await? else {
            return Ok(());
        };
        let pause = TTL + TIME_TOLERANCE + self.random.millis(50, 400);
        increment(&self.twin, &self.recorder, number, lock.fence, pause).await;
        let _ = self.backend.extend(ExtendRequest::new(lock.lock_id, TTL)?).await?;
        let _ = self.backend.release(ReleaseRequest::new(lock.lock_id)).await?;
        Ok(())
    }

    /// Not for long, and then for long after all, also where the first word was not answered: what an extend
    /// that comes late could undo.
    async fn undecided(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let config = LockConfig::new(key)
            .with_ttl(TTL)
            .with_acquisition(AcquisitionOptions::new().with_max_retries(1));
        let mut guard = acquire(&self.backend, config).await?;
        let _ = guard.extend(TTL / 4).await;
        if guard.extend(LONGEST).await?.is_extended() {
            let pause = TTL * 4 + self.random.millis(0, 500);
            tokio::select! {
                biased;
                () = increment(&self.twin, &self.recorder, number, guard.fence(), pause) => {}
                _ = guard.lost() => {}
            }
        }
        let _ = guard.release().await?;
        Ok(())
    }

    /// Only looks.
    async fn curious(&mut self, key: String) -> Result<(), LockError> {
        self.backend.is_locked(IsLockedRequest::new(key.as_str())?).await?;
        self.backend.lookup(LookupRequest::by_key(key)?).await?;
        Ok(())
    }

    /// Waits for its turn, however long it takes, and may go away meanwhile.
    async fn patient(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let options = AcquisitionOptions::patient(Duration::from_secs(10));
        let config = LockConfig::new(key).with_ttl(TTL).with_acquisition(options);
        let leaves = if self.random.percent(30) { self.random.millis(1, 100) } else { TTL * 20 };
        tokio::select! {
            biased;
            guard = acquire(&self.backend, config) => {
                let guard = guard?;
                let pause = self.random.millis(0, 2);
                increment(&self.twin, &self.recorder, number, guard.fence(), pause).await;
                // Some forget to release: dropped, it does so in the background.
                if self.random.percent(70) {
                    let _ = guard.release().await?;
                }
            }
            () = sleep(leaves) => {}
        }
        Ok(())
    }

    /// Takes it if it is free; an answer that takes long is not waited for.
    async fn impatient(&mut self, key: String) -> Result<(), LockError> {
        let waits = self.random.millis(0, 3);
        let config = LockConfig::new(key).with_ttl(TTL);
        tokio::select! {
            biased;
            guard = try_lock(&self.backend, config) => drop(guard?),
            () = sleep(waits) => {}
        }
        Ok(())
    }

    async fn permit(&mut self) -> Result<(), LockError> {
        let is_wrong = self.member == 0 && self.flaw == Some(Flaw::OnePermitMore);
        let permits = PERMITS + u32::from(is_wrong);
        let options = AcquisitionOptions::patient(Duration::from_secs(2));
        let semaphore = Semaphore::new(self.backend.clone(), SEMAPHORE, permits)?
            .with_ttl(TTL)
            .with_acquisition(options);
        let permit = semaphore.acquire().await?;
        tokio::select! {
            biased;
            () = sleep(self.random.millis(1, 20)) => {}
            _ = permit.lost() => {}
        }
        if self.random.percent(50) {
            let _ = permit.release().await?;
        }
        Ok(())
    }

    async fn several(&mut self) -> Result<(), LockError> {
        let mut keys = std::collections::BTreeSet::new();
        for _ in 0..3 {
            keys.insert(format!("set-{}", self.random.below(5)));
        }
        let options = AcquisitionOptions::new().with_timeout(Duration::from_secs(1));
        let configs = keys.iter();
        let configs = configs
            .map(|key| LockConfig::new(key.as_str()).with_ttl(TTL).with_acquisition(options));
        let set = lock_all(&self.backend, configs).await?;
        sleep(self.random.millis(0, 5)).await;
        if self.random.percent(50) {
            set.release().await?;
        }
        Ok(())
    }

    /// Stands for election for a while, and leads if it is elected.
    async fn lead(&mut self) -> Result<(), LockError> {
        let shutdown = self.stop.child_token();
        let election = Election::new(self.backend.clone(), "leader")
            .with_ttl(TTL)
            .with_grace(Duration::from_millis(20))
            .with_shutdown(shutdown.clone());
        let recorder = self.recorder.clone();
        let (lasts, resigns) = (self.random.millis(100, 2000), self.random.millis(50, 1000));
        let run = election.run(async |term| {
            tokio::select! {
                biased;
                _ = term.lost() => {}
                () = sleep(resigns) => {}
            }
            let left = u64::try_from(term.valid_for().as_micros()).unwrap_or(u64::MAX);
            recorder.note(Entry::Told { left });
            term.resign();
        });
        let ends = async {
            sleep(lasts).await;
            shutdown.cancel();
        };
        let (result, ()) = tokio::join!(biased; run, ends);
        result
    }

    /// A job that keeps its lock for a minimum time.
    async fn once_a_period(&mut self) -> Result<(), LockError> {
        let job = LockConfig::new("job").with_ttl(TTL).with_min_hold(Duration::from_millis(100));
        if let Some(guard) = try_lock(&self.backend, job).await? {
            sleep(Duration::from_millis(10)).await;
            let _ = guard.release().await?;
        }
        Ok(())
    }

    /// The flawed copy of an election: nobody renews, and nobody looks at the time.
    async fn lead_deaf(&mut self) -> Result<(), LockError> {
        let config = LockConfig::new("leader-deaf").with_ttl(TTL);
        if let Some(guard) = try_lock(&self.backend, config).await? {
            guard.lost().await;
            let left = u64::try_from(guard.valid_for().as_micros()).unwrap_or(u64::MAX);
            self.recorder.note(Entry::Told { left });
            let _ = guard.release().await?;
        }
        Ok(())
    }

    /// The flawed user: what the bare backend grants is relied on, however late the answer comes.
    async fn trust_anything(&mut self) -> Result<(), LockError> {
        let ttl = Duration::from_millis(2);
        let asked = Instant::now();
        let request = AcquireRequest::new("trusted", ttl)?;
        if let AcquireResult::Acquired(lock) = self.backend.acquire(request).await? {
            let left = ttl.saturating_sub(asked.elapsed()).as_micros();
            self.recorder.note(Entry::Told { left: u64::try_from(left).unwrap_or(u64::MAX) });
            let _ = self.backend.release(ReleaseRequest::new(lock.lock_id)).await?;
        }
        Ok(())
    }
}

/// Reads, takes its time, and writes one more.
async fn increment(
    twin: &Twin,
    recorder: &Recorder,
    register: usize,
    fence: Fence,
    pause: Duration,
) {
    let (name, fence) = (Registers::name(register), fence.get());
    let claim = Request::Claim { register, fence };
    let pending = recorder.call(Call::Claim { register: name.clone(), fence });
    let value = match twin.ask_register(claim).await {
        Ok(Reply::Claimed { value }) => {
            pending.answer(Answer::Claimed { value });
            value + 1
        }
        Ok(_) => return pending.answer(Answer::Rejected),
        Err(error) => return pending.answer(failed(&error)),
    };
    sleep(pause).await;
    let pending = recorder.call(Call::Write { register: name, fence, value });
    pending.answer(match twin.ask_register(Request::Write { register, fence, value }).await {
        Ok(Reply::Written) => Answer::Written,
        Ok(_) => Answer::Rejected,
        Err(error) => failed(&error),
    });
}

fn failed(error: &LockError) -> Answer {
    Answer::Failed { code: error.code().to_string(), unknown: true }
}
