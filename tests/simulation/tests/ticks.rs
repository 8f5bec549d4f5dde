//! The ticks of a schedule with a plain lock and with the recipe, in six processes whose clocks are off and which are
//! stopped and killed, on a network that is slow and loses messages.
//!
//! The library, the recipe and the memory backend are real, and share one paused clock.

#![allow(clippy::print_stdout, reason = "figures and a seed for a human eye")]

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use syncguard_core::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, KeyWatch, ReleaseRequest, WatchRequest,
};
use syncguard_core::shared::ClientState;
use syncguard_core::{
    ErrorCode, ExtendResult, Fence, LockBackend, LockConfig, LockError, ReleaseResult, try_acquire,
};
use syncguard_history::Random;
use syncguard_memory::MemoryBackend;
use syncguard_recipes::{Missed, Schedule, Ticks};
use syncguard_test_effort::either;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep};

const KEY: &str = "nightly";
const PERIOD: Duration = Duration::from_mins(1);
const TTL: Duration = Duration::from_secs(20);

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

const PROCESSES: u64 = 6;

/// The processes start during the first ticks, which do not count.
const UNCOUNTED: u64 = 2;

/// Chances of a hundred.
const STOPPED: u64 = 3;
const LOST: u64 = 3;
const KILLED: u64 = 2;

/// How the processes keep a tick from running twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Lock,
    Ticks { attempts: u16 },
}

/// The clocks of the processes.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    /// The clocks are off by at most this, in milliseconds.
    most: u64,
    /// How far the clock of the first process is ahead instead.
    first_is_ahead: Option<u64>,
}

/// The outcome of the ticks of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    ticks: usize,
    /// Starts of a tick beyond the first one, or of an attempt if ticks have several.
    second_starts: usize,
    /// Later attempts of a tick.
    followed: usize,
    never_done: usize,
}

#[test]
fn ticks_start_once_where_locks_run_them_again_or_never() {
    let (seed, ticks) = (Random::seed(), either(300, 3_400));
    println!("SYNCGUARD_SEED={seed}");
    let clocks = Clocks { most: 5_000, first_is_ahead: None };
    let run = |way, clocks| {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        // The closures of users need not be `Send`.
        let row = LocalSet::new().block_on(&runtime.unwrap(), row(way, clocks, ticks, seed));
        println!("{way:?} {clocks:?}: {row:?}");
        row
    };
    // The adversary bites.
    let plain = run(Way::Lock, clocks);
    assert!(plain.second_starts > plain.ticks / 2, "{plain:?}");

    // Also with one clock an hour ahead.
    for clocks in [clocks, Clocks { first_is_ahead: Some(3_600_000), ..clocks }] {
        let row = run(Way::Ticks { attempts: 1 }, clocks);
        assert_eq!((row.second_starts, row.followed), (0, 0), "{row:?}");
        // Processes that were killed or stopped with the lock, and answers that were lost.
        assert!(row.never_done > 0 && row.never_done < row.ticks / 5, "{row:?}");
    }
    let tried_again = run(Way::Ticks { attempts: 50 }, clocks);
    assert_eq!((tried_again.second_starts, tried_again.never_done), (0, 0), "{tried_again:?}");
    assert!(tried_again.followed > 0, "{tried_again:?}");
}

async fn row(way: Way, clocks: Clocks, ticks: u64, seed: u64) -> Row {
    let world = World::new(way);
    let mut random = Random::new(seed);
    let mut processes = JoinSet::new();
    for number in 0..PROCESSES {
        let off = match clocks.first_is_ahead {
            Some(ahead) if number == 0 => ahead.cast_signed(),
            _ => random.below(2 * clocks.most + 1).cast_signed() - clocks.most.cast_signed(),
        };
        processes.spawn_local(world.clone().process(off, Random::new(random.number())));
    }
    let first = (world.millis() / 60_000 + UNCOUNTED) * 60_000;
    // Time to make up for ticks whose processes were killed.
    sleep(PERIOD * u32::try_from(UNCOUNTED + ticks + 10).unwrap()).await;
    processes.shutdown().await;

    let record = world.record.lock().unwrap();
    let due: BTreeSet<u64> = (0..ticks).map(|number| first + number * 60_000).collect();
    let mut row = Row { ticks: due.len(), ..Row::default() };
    for tick in &due {
        let attempts = record.starts.get(tick).map_or(&[][..], Vec::as_slice);
        let different: BTreeSet<u16> = attempts.iter().copied().collect();
        row.second_starts += attempts.len() - different.len();
        row.followed += different.len().saturating_sub(1);
        row.never_done += usize::from(!record.done.contains(tick));
    }
    row
}

/// The store, its clock, and what the processes have run.
#[derive(Clone)]
struct World {
    way: Way,
    store: MemoryBackend,
    began: SystemTime,
    at: Instant,
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    /// The attempts of each tick, in their order.
    starts: BTreeMap<u64, Vec<u16>>,
    done: BTreeSet<u64>,
}

impl World {
    fn new(way: Way) -> Self {
        let (began, at) = (SystemTime::now(), Instant::now());
        let store = MemoryBackend::starting_at(began);
        Self { way, store, began, at, record: Arc::default() }
    }

    fn millis(&self) -> u64 {
        let since = (self.began + self.at.elapsed()).duration_since(UNIX_EPOCH).unwrap();
        since.as_millis().try_into().unwrap()
    }

    /// A process that is started again after each kill. Its clock is off by this many milliseconds.
    async fn process(self, off: i64, mut random: Random) {
        sleep(random.millis(0, 60_000)).await;
        loop {
            let process = Process {
                world: self.clone(),
                off,
                connection: Connection::new(&self.store, Random::new(random.number())),
                dies: Arc::default(),
            };
            tokio::select! {
                biased;
                () = process.dies.notified() => {}
                () = process.works(Random::new(random.number())) => {}
            }
            sleep(random.millis(5_000, 120_000)).await;
        }
    }
}

/// A process between its start and its death.
#[derive(Clone)]
struct Process {
    world: World,
    off: i64,
    connection: Connection,
    dies: Arc<Notify>,
}

impl Process {
    async fn works(&self, random: Random) {
        match self.world.way {
            Way::Lock => self.locks(random).await,
            Way::Ticks { attempts } => self.runs_ticks(attempts).await,
        }
    }

    /// Its clock, in milliseconds.
    fn millis(&self) -> u64 {
        self.world.millis().saturating_add_signed(self.off)
    }

    /// A user without the recipe tries for the lock at each tick.
    async fn locks(&self, mut random: Random) {
        let mut last = 0;
        loop {
            let tick = self.millis() / 60_000 * 60_000;
            if tick <= last {
                let next = tick + 60_000 - self.millis();
                sleep(Duration::from_millis(next) + random.millis(0, 200)).await;
                continue;
            }
            last = tick;
            if random.percent(STOPPED) {
                // The process has decided that the tick is due.
                sleep(random.millis(0, 180_000)).await;
            }
            // A lock that is held and a failure are the same to this user.
            let config = LockConfig::new(KEY).with_ttl(TTL);
            let Ok(tried) = try_acquire(&self.connection, config).await else { continue };
            if let Some(guard) = tried.acquired().filter(|guard| !guard.valid_for().is_zero()) {
                self.runs(tick, 1).await;
                let _ = guard.release().await;
            }
        }
    }

    async fn runs_ticks(&self, attempts: u16) {
        let process = self.clone();
        let clock = move || UNIX_EPOCH + Duration::from_millis(process.millis());
        let missed = if attempts == 1 { Missed::Skip } else { Missed::Each };
        let config = LockConfig::new(KEY).with_ttl(TTL);
        let ticks = Ticks::new(self.connection.clone(), config, Schedule::every(PERIOD).unwrap())
            .with_attempts(attempts)
            .with_missed(missed)
            .with_clock(Arc::new(clock));
        let ended = ticks
            .run(async |tick| {
                let at = tick.scheduled_at.as_millis();
                assert!(self.world.millis() >= at, "before its time");
                self.runs(at, tick.attempt).await;
            })
            .await;
        panic!("the schedule ended: {ended:?}");
    }

    /// The work of a tick, during which the process may be killed or stopped.
    async fn runs(&self, tick: u64, attempt: u16) {
        self.world.record.lock().unwrap().starts.entry(tick).or_default().push(attempt);
        let (dies, stops, takes) = {
            let mut random = self.connection.random.lock().unwrap();
            let stops = random.percent(1).then(|| random.millis(1_000, 90_000));
            (random.percent(KILLED), stops, random.millis(200, 8_000))
        };
        if dies {
            sleep(takes / 2).await;
            self.connection.is_cut.store(true, Ordering::Relaxed);
            self.dies.notify_one();
            pending::<()>().await;
        }
        if let Some(stops) = stops {
            // Renewals stop as well.
            *self.connection.stopped_until.lock().unwrap() = Instant::now() + stops;
            sleep(stops).await;
        }
        sleep(takes).await;
        self.world.record.lock().unwrap().done.insert(tick);
    }
}

/// The connection of a process to the store.
#[derive(Clone)]
struct Connection {
    store: MemoryBackend,
    random: Arc<Mutex<Random>>,
    is_cut: Arc<AtomicBool>,
    stopped_until: Arc<Mutex<Instant>>,
    state: ClientState,
}

impl Connection {
    fn new(store: &MemoryBackend, random: Random) -> Self {
        Self {
            store: store.clone(),
            random: Arc::new(Mutex::new(random)),
            is_cut: Arc::default(),
            stopped_until: Arc::new(Mutex::new(Instant::now())),
            state: ClientState::default(),
        }
    }

    fn percent(&self, chance: u64) -> bool {
        self.random.lock().unwrap().percent(chance)
    }

    fn millis(&self, from: u64, to: u64) -> Duration {
        self.random.lock().unwrap().millis(from, to)
    }

    /// A request and its answer.
    async fn send<T>(
        &self,
        asked: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let stopped_until = *self.stopped_until.lock().unwrap();
        tokio::time::sleep_until(stopped_until).await;
        sleep(self.millis(0, 100)).await;
        if self.is_cut.load(Ordering::Relaxed) || self.percent(LOST) {
            return unanswered().await;
        }
        let answer = asked.await;
        if self.percent(LOST) {
            return unanswered().await;
        }
        sleep(self.millis(0, 100)).await;
        answer
    }
}

/// A request whose answer does not come.
async fn unanswered<T>() -> Result<T, LockError> {
    sleep(PATIENCE).await;
    Err(LockError::new(ErrorCode::NetworkTimeout, "no answer"))
}

impl LockBackend for Connection {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        if self.percent(STOPPED) {
            // The process has decided to ask, and is stopped before it does.
            sleep(self.millis(0, 60_000)).await;
        }
        let (store, lock_id) = (self.store.clone(), request.lock_id);
        let answer = self.send(store.acquire(request)).await;
        if answer.is_err() && !self.is_cut.load(Ordering::Relaxed) {
            // The clean-up of an acquire whose outcome is unknown.
            store.release(ReleaseRequest::new(lock_id)).await?;
        }
        if self.percent(STOPPED) {
            // The process is stopped before it reads the answer.
            sleep(self.millis(0, 60_000)).await;
        }
        answer
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.send(self.store.release(request)).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        self.send(self.store.extend(request)).await
    }

    async fn watch(&self, _: WatchRequest) -> Option<KeyWatch> {
        None
    }

    syncguard_core::forward!(store: is_locked, lookup, inventory, capabilities);

    fn client_state(&self) -> &ClientState {
        &self.state
    }
}
