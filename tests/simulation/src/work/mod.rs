//! The work of a member of the fleet, with everything that the library offers.

mod flawed;
mod plain;
mod recipes;
mod ticks;
mod uses;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::{CancellationToken, DynBackend, Fence, LockConfig, LockError};
use syncguard_history::{Answer, Call, Random, Recorder, Recording};
use syncguard_recipes::RwLock;
use tokio::time::sleep;

use crate::flaw::Flaw;
use crate::flawed_queue::FlawedQueue;
use crate::link::Link;
use crate::protocol::{Reply, Request};
use crate::registers::Registers;

/// The TTL of locks.
pub(crate) const TTL: Duration = Duration::from_millis(600);
/// The longest TTL.
pub(crate) const LONGEST: Duration = Duration::from_millis(3600);
/// The number of permits of the semaphore.
pub(crate) const PERMITS: u32 = 3;
pub(crate) const SEMAPHORE: &str = "semaphore";
/// The largest number of processes that may read at a time. Each process draws its own number.
const MOST_SLOTS: u64 = 4;

type Backend = Recording<FlawedQueue<DynBackend>>;

/// The read/write locks of a process.
pub(crate) fn readers_and_writers(backend: &Backend, random: &mut Random) -> [RwLock<Backend>; 2] {
    uses::KEYS.map(|key| {
        let slots = u32::try_from(1 + random.below(MOST_SLOTS)).unwrap_or(1);
        let config = LockConfig::new(key).with_ttl(TTL).with_wait_up_to(Duration::from_secs(3));
        RwLock::new(backend.clone(), config, slots)
    })
}

/// One of a member's tasks.
pub(crate) struct Worker {
    pub(crate) backend: Backend,
    pub(crate) shared: [RwLock<Backend>; 2],
    pub(crate) link: Arc<Link>,
    pub(crate) recorder: Recorder,
    pub(crate) random: Random,
    pub(crate) keys: usize,
    pub(crate) member: usize,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) stop: CancellationToken,
}

impl Worker {
    /// Works until the token fires, then finishes the current operation. Errors are on the record; here an error only
    /// ends a turn.
    pub(crate) async fn work(mut self) {
        while !self.stop.is_cancelled() {
            // A store that refuses everything would fill the history with failures.
            let pause = match self.turn().await {
                Ok(()) => self.random.millis(0, 4),
                Err(_) => self.random.millis(10, 60),
            };
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
        if is_spared(self.member, self.flaw) && self.random.percent(self.forsakes()) {
            return self.forsaken().await;
        }
        // These flaws show only if many ask for ticks.
        let is_for_ticks =
            self.flaw.is_some_and(Flaw::starts_ticks_twice) && self.random.percent(10);
        let is_for_readers = self.flaw.is_some_and(Flaw::is_of_readers) && self.random.percent(20);
        let is_undecided = self.flaw == Some(Flaw::BlindExtends) && self.random.percent(10);
        let is_for_permits = self.flaw == Some(Flaw::OnePermitMore) && self.random.percent(20);
        let is_twice = self.flaw == Some(Flaw::ResentExtends) && self.random.percent(10);
        let is_late = matches!(self.flaw, Some(Flaw::MissingRowLock | Flaw::UncheckedExtend));
        let is_overslept = is_late && self.random.percent(30);
        // The keys are few, so that members meet.
        let number = usize::try_from(self.random.below(self.keys as u64)).unwrap_or(0);
        let key = Registers::name(number);
        match self.random.below(1000) {
            _ if is_for_ticks => self.tick().await,
            _ if is_for_readers => self.uses().await,
            _ if is_for_permits => self.permit().await,
            _ if is_overslept => self.overslept(number, key).await,
            _ if is_twice => self.twice(number, key).await,
            _ if is_undecided => self.undecided(number, key).await,
            0..520 => self.brief(number, key).await,
            520..800 => self.by_hand(number, key).await,
            800..804 => self.long(number).await,
            804..806 => self.overslept(number, key).await,
            806..811 => self.undecided(number, key).await,
            811..825 => self.curious(key).await,
            825..885 => self.patient(number, key).await,
            885..915 => self.impatient(key).await,
            915..930 => self.permit().await,
            930..965 => self.uses().await,
            965..980 => self.several().await,
            980..985 => self.lead().await,
            985..990 => self.once_a_period().await,
            990..994 => self.scheduled().await,
            _ => self.tick().await,
        }
    }

    /// How many of a hundred locks are abandoned, by a member that does so.
    fn forsakes(&self) -> u64 {
        // These flaws show only there.
        if self.flaw.is_some_and(Flaw::leaves_orphans) { 20 } else { 2 }
    }
}

/// True if a member is never killed, so that the library has to remove all its locks.
pub(crate) fn is_spared(member: usize, flaw: Option<Flaw>) -> bool {
    member == 0 || flaw.is_some_and(Flaw::leaves_orphans)
}

/// Reads the value, pauses, and writes the value plus one.
async fn increment(
    link: &Link,
    recorder: &Recorder,
    register: usize,
    fence: Fence,
    pause: Duration,
) {
    let (name, fence) = (Registers::name(register), fence.get());
    let claim = Request::Claim { register, fence };
    let pending = recorder.call(Call::Claim { register: name.clone(), fence });
    let value = match link.ask(claim).await {
        Ok(Reply::Claimed { value }) => {
            pending.answer(Answer::Claimed { value });
            value + 1
        }
        Ok(_) => return pending.answer(Answer::Rejected),
        Err(error) => return pending.answer(failed(&error)),
    };
    sleep(pause).await;
    let pending = recorder.call(Call::Write { register: name, fence, value });
    pending.answer(match link.ask(Request::Write { register, fence, value }).await {
        Ok(Reply::Written) => Answer::Written,
        Ok(_) => Answer::Rejected,
        Err(error) => failed(&error),
    });
}

fn failed(error: &LockError) -> Answer {
    Answer::Failed { code: error.code().to_string(), unknown: true }
}
