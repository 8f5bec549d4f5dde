//! Processes that always want a key, and their results.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use syncguard_core::authoring::seed_randomness;
use syncguard_core::{AcquisitionOptions, Jitter, LockId, Locker};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

use super::store::{Process, Store};

/// The turns and waits of one group of workers.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Counts>>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) turns: u32,
    pub(crate) time_outs: u32,
    pub(crate) longest_wait: Duration,
}

impl Tally {
    fn note(&self, began: Instant, granted: bool) {
        let mut counts = self.0.lock().expect("no worker panics");
        let count = if granted { &mut counts.turns } else { &mut counts.time_outs };
        *count += 1;
        counts.longest_wait = counts.longest_wait.max(began.elapsed());
    }
}

impl Counts {
    /// In percent of the turns of all groups.
    pub(crate) fn share(self, all: impl IntoIterator<Item = Self>) -> f64 {
        let all: u32 = all.into_iter().map(|counts| counts.turns).sum();
        100.0 * f64::from(self.turns) / f64::from(all)
    }

    /// In percent of the waits.
    pub(crate) fn timed_out(self) -> f64 {
        100.0 * f64::from(self.time_outs) / f64::from((self.turns + self.time_outs).max(1))
    }
}

/// The work that each worker repeats.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) keys: u32,
    pub(crate) hold: Range<Duration>,
    /// Between a release and the next wait.
    pub(crate) rest: Range<Duration>,
}

impl Work {
    /// On one key, without a pause.
    pub(crate) fn of(hold: Duration) -> Self {
        Self { keys: 1, hold: hold..hold, rest: Duration::ZERO..Duration::ZERO }
    }

    fn key(&self) -> String {
        let number = Jitter::Full.of(Duration::from_nanos(self.keys.into())).as_nanos();
        format!("key {number}")
    }
}

/// As short as the clock can measure.
async fn rest(range: &Range<Duration>) {
    let time = range.start + Jitter::Full.of(range.end.saturating_sub(range.start));
    if !time.is_zero() {
        sleep(time).await;
    }
}

/// Tasks of a process of this library.
pub(crate) fn ours(process: &Process, tasks: u32, work: &Work) -> Tally {
    ours_within(process, tasks, work, TIMEOUT)
}

/// Tasks of a process of this library, with a limit for each wait.
pub(crate) fn ours_within(process: &Process, tasks: u32, work: &Work, limit: Duration) -> Tally {
    let locker = Locker::new(process.clone()).with_wait_up_to(limit);
    repeat(tasks, &Client::Ours(Box::new(locker)), work)
}

/// A task that asks every 100 ms if the process hears no signals.
pub(crate) fn steady(process: &Process, work: &Work) -> Tally {
    let pauses = AcquisitionOptions::default().with_max_retry_delay(Duration::from_millis(100));
    let pauses = pauses.with_jitter(Jitter::None).with_timeout(TIMEOUT).with_max_retries(u32::MAX);
    let locker = Locker::new(process.clone()).with_acquisition(pauses);
    repeat(1, &Client::Ours(Box::new(locker)), work)
}

/// Tasks of a process of the TypeScript library.
pub(crate) fn type_script(store: &Store, tasks: u32, work: &Work) -> Tally {
    repeat(tasks, &Client::TypeScript(store.clone()), work)
}

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
enum Client {
    Ours(Box<Locker<Process>>),
    TypeScript(Store),
}

fn repeat(tasks: u32, client: &Client, work: &Work) -> Tally {
    let tally = Tally::default();
    for _ in 0..tasks {
        let (client, work, tally) = (client.clone(), work.clone(), tally.clone());
        tokio::task::spawn(async move {
            loop {
                let began = Instant::now();
                match &client {
                    Client::Ours(locker) => {
                        let guard = Locker::clone(locker).acquire(work.key()).await;
                        tally.note(began, guard.is_ok());
                        if let Ok(guard) = guard {
                            rest(&work.hold).await;
                            drop(guard.release().await);
                        }
                    }
                    Client::TypeScript(store) => {
                        let id = LockId::generate().expect("chance");
                        let granted = polls(store, &work.key(), id, began).await;
                        tally.note(began, granted);
                        if granted {
                            rest(&work.hold).await;
                            store.give_back(id, false);
                        }
                    }
                }
                rest(&work.rest).await;
            }
        });
    }
    tally
}

/// Ten retries in the time limit, after pauses of 100 ms that double, half of each random.
async fn polls(store: &Store, key: &str, id: LockId, began: Instant) -> bool {
    for retry in 0..=10 {
        if store.take(key, id, true).is_ok() {
            return true;
        }
        let pause = Jitter::Equal.of(Duration::from_millis(100 << retry));
        let left = TIMEOUT.saturating_sub(began.elapsed());
        sleep(pause.min(left)).await;
        if left <= pause {
            return false;
        }
    }
    false
}

/// Runs processes for this long, on a clock that costs no time and with repeatable chance.
pub(crate) fn simulate<const N: usize>(
    seed: u64,
    seconds: u64,
    begin: impl FnOnce() -> [Tally; N],
) -> [Counts; N] {
    seed_randomness(Some(seed));
    let runtime =
        Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let tallies = runtime.block_on(async {
        let tallies = begin();
        sleep(Duration::from_secs(seconds)).await;
        tallies
    });
    seed_randomness(None);
    tallies.map(|tally| *tally.0.lock().expect("no worker panics"))
}
