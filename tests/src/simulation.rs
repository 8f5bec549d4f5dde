//! A fleet in simulation: tasks in one thread, on a clock that stands still while anybody has something
//! to do, over the embedded backend behind a way that loses, delays, reorders and repeats.
//!
//! A run is decided by its seed alone, and is checked and forgotten before the next one begins: so any
//! number of them needs no more memory than one. [`Soak`] does that.

mod shaky;
mod soak;

use std::time::Duration;

use syncguard::{CancellationToken, DynBackend, IsLockedRequest, LockBackend as _, TIME_TOLERANCE};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

use crate::fleet::{Plan, key, longest_ttl, work};
use crate::history::{Clock, Entry, Fault, History, Limits, Recorder};
use crate::random::Random;
use crate::recording::Recording;
use crate::register::{Memory, Registers};
use shaky::Shaky;

pub use shaky::{BOUND, Flaw, LATEST};
pub use soak::{Failure, Soak, Soaked};

const MEMBERS: u32 = 8;
const KEYS: u64 = 4;
const TTL: Duration = Duration::from_millis(600);

/// An acquire is carried out within its bound, and nobody may take longer to see to its lock.
#[must_use]
pub fn limits() -> Limits {
    Limits { in_flight: BOUND + Duration::from_millis(200), ..Limits::new() }
}

/// A run of so many seconds, which pass in no time.
///
/// With a flaw, or with registers that look at no fence, it is there to be found out.
///
/// # Panics
///
/// Where nothing runs at all.
#[must_use]
pub fn run(seed: u64, flaw: Option<Flaw>, fenced: bool, seconds: u64) -> History {
    let runtime =
        Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let recorder = Recorder::in_memory(Clock::tokio());
        let mut random = Random::new(seed);
        let shaky = Shaky::new(flaw, recorder.clone(), Random::new(random.number()));
        let registers = Registers::in_memory(Memory::new(fenced), recorder.clone());
        let mut fleet = Fleet {
            shaky: shaky.clone(),
            registers: registers.clone(),
            recorder: recorder.clone(),
            random,
            stop: CancellationToken::new(),
            started: 0,
        };
        let mut members: Vec<_> = (0..MEMBERS).map(|_| fleet.start()).collect();
        let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
        while tokio::time::Instant::now() < end {
            fleet.strike(&mut members).await;
        }
        fleet.stop.cancel();
        for member in members {
            member.await.expect("a member");
        }
        settle(&shaky, &registers, &recorder).await;
        recorder.history()
    })
}

struct Fleet {
    shaky: Shaky,
    registers: Registers,
    recorder: Recorder,
    random: Random,
    stop: CancellationToken,
    started: u32,
}

impl Fleet {
    fn start(&mut self) -> JoinHandle<()> {
        let recorder = self.recorder.named(&format!("task-{}", self.started));
        self.started += 1;
        let registers = self.registers.recorded_by(recorder.clone());
        let backend = Recording::new(DynBackend::new(self.shaky.clone()), recorder);
        let plan = Plan { keys: KEYS, ttl: TTL, seed: self.random.number() };
        let stop = self.stop.clone();
        tokio::spawn(async move { work(&backend, &registers, &plan, &stop).await })
    }

    /// Ends somebody in the middle of something, or the service for a while.
    async fn strike(&mut self, members: &mut [JoinHandle<()>]) {
        tokio::time::sleep(self.random.millis(150, 500)).await;
        if self.random.percent(50) {
            let member =
                usize::try_from(self.random.below(members.len() as u64)).unwrap_or_default();
            members[member].abort();
            self.recorder.note(Entry::Fault(Fault::Killed));
            members[member] = self.start();
        } else {
            let lasts = self.random.millis(50, 300);
            self.shaky.take_down(lasts);
            self.recorder.note(Entry::Fault(Fault::Severed));
            tokio::time::sleep(lasts).await;
            self.recorder.note(Entry::Healed);
        }
    }
}

async fn settle(shaky: &Shaky, registers: &Registers, recorder: &Recorder) {
    // What was begun in the background ends with the locks it is about; what was held up, when it comes.
    let locks = longest_ttl(TTL) + TIME_TOLERANCE;
    tokio::time::sleep(LATEST.max(locks) + Duration::from_secs(4)).await;
    let tasks = Handle::current().metrics().num_alive_tasks() as u64;
    let mut live = 0;
    for number in 0..KEYS {
        registers.note(&key(number)).await.expect("a register");
        let request = IsLockedRequest::new(key(number)).expect("a key");
        live += u64::from(shaky.store().is_locked(request).await.expect("an answer"));
    }
    recorder.note(Entry::Quiet { live, tasks, borrowed: 0 });
}
