//! Each tick of a schedule runs once, whatever the clocks, crashes and pauses of the processes.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use syncguard_conformance::LogLines;
use syncguard_core::authoring::recipes::FenceWindow;
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ExtendRequest, ReleaseRequest,
    TIME_TOLERANCE, TimeAuthority,
};
use syncguard_core::{
    CancellationToken, ErrorCode, ExtendResult, Fence, IntoKey as _, LockBackend, LockConfig,
    LockError, ReleaseResult, Timestamp, forward, try_acquire,
};
use syncguard_memory::MemoryBackend;
use syncguard_recipes::{Missed, Schedule, TickOutcome, Ticks};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::common::Connection;

const KEY: &str = "nightly";
const MINUTE: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(10);

/// The wall clock of the store, which follows tokio's paused clock.
#[derive(Clone)]
struct World {
    began: SystemTime,
    at: Instant,
    starts: Arc<Mutex<BTreeMap<u64, Vec<u16>>>>,
}

impl World {
    /// A store, 10 s after a full minute.
    async fn new() -> (Self, MemoryBackend) {
        let (began, at) = (SystemTime::now(), Instant::now());
        let store = MemoryBackend::starting_at(began);
        let world = Self { began, at, starts: Arc::default() };
        let past = world.millis() % 60_000;
        sleep(Duration::from_millis(60_000 - past + 10_000)).await;
        (world, store)
    }

    fn millis(&self) -> u64 {
        let now = self.began + self.at.elapsed();
        now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
    }

    /// The last full minute.
    fn minute(&self) -> u64 {
        self.millis() / 60_000 * 60_000
    }

    /// A process whose clock is off by this many milliseconds.
    fn ticks<B: LockBackend>(&self, backend: B, off: i64) -> Ticks<B> {
        self.ticks_as(backend, LockConfig::new(KEY).with_ttl(TTL), off)
    }

    /// The same, with these settings.
    fn ticks_as<B: LockBackend>(&self, backend: B, config: LockConfig, off: i64) -> Ticks<B> {
        self.ticks_by(backend, config, &Arc::new(AtomicI64::new(off)))
    }

    /// A process whose clock is set.
    fn ticks_by<B: LockBackend>(
        &self,
        backend: B,
        config: LockConfig,
        off: &Arc<AtomicI64>,
    ) -> Ticks<B> {
        let (world, off) = (self.clone(), Arc::clone(off));
        let clock = move || {
            let millis = world.millis().saturating_add_signed(off.load(Ordering::Relaxed));
            SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
        };
        let schedule = Schedule::every(MINUTE).unwrap();
        Ticks::new(backend, config, schedule).with_clock(Arc::new(clock))
    }

    /// Runs the ticks in a task. The work takes this long.
    fn run<B: LockBackend<Fence = Fence>>(
        &self,
        ticks: Ticks<B>,
        takes: Duration,
    ) -> JoinHandle<Result<(), LockError>> {
        let world = self.clone();
        tokio::spawn(ticks.run(async move |tick| {
            let first = tick.scheduled_at.as_millis();
            assert_eq!(tick.fence().get(), first + u64::from(tick.attempt) - 1);
            assert!(world.millis() >= first, "before its time");
            world.note(first, tick.attempt);
            sleep(takes).await;
        }))
    }

    fn note(&self, tick: u64, attempt: u16) {
        self.starts.lock().unwrap().entry(tick).or_default().push(attempt);
    }

    /// The attempts of the tick this many minutes after the first one of the test.
    fn starts(&self) -> BTreeMap<u64, Vec<u16>> {
        self.starts.lock().unwrap().clone()
    }
}

/// Aborted when dropped, like a process that is killed.
struct Killed<T>(JoinHandle<T>);

impl<T> Drop for Killed<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Also beside a clock that is an hour ahead, which uses up no coming tick.
#[tokio::test(start_paused = true)]
async fn each_tick_runs_once_whatever_the_clocks() {
    for clocks in [&[-5000, -2000, -100, 0, 3000, 5000][..], &[3_600_000, 0]] {
        let (world, store) = World::new().await;
        let first = world.minute() + 60_000;
        let processes: Vec<_> = clocks
            .iter()
            .map(|off| {
                let ticks = world.ticks(Connection::of(&store), *off);
                Killed(world.run(ticks, Duration::from_millis(200)))
            })
            .collect();
        sleep(100 * MINUTE).await;
        drop(processes);
        let starts = world.starts();
        assert_eq!(starts.len(), 100, "{starts:?}");
        assert!(starts.keys().zip(0..).all(|(tick, number)| *tick == first + number * 60_000));
        assert!(starts.values().all(|attempts| attempts == &[1]), "{starts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_was_too_early_is_kept_through_an_outage() {
    let (world, store) = World::new().await;
    let began = world.minute();
    let connection = Connection::of(&store);
    // Its clock begins at 1 min 20 s, and shows 2 min after 40 s: then it is told to wait for 70 s.
    let ticks = world.ticks(connection.clone(), 70_000).with_max_lateness(2 * MINUTE);
    // The store is away at first, too.
    connection.cut(true);
    let running = Killed(world.run(ticks, Duration::ZERO));
    sleep(Duration::from_secs(10)).await;
    connection.cut(false);
    sleep(Duration::from_secs(35)).await;
    assert_eq!(connection.counts.acquires.load(Ordering::Relaxed), 1);
    sleep(Duration::from_secs(60)).await;
    connection.cut(true);
    sleep(Duration::from_secs(15)).await;
    // By its clock, the next tick is due meanwhile.
    connection.cut(false);
    sleep(Duration::from_secs(5)).await;
    drop(running);
    let starts = world.starts();
    assert_eq!(starts.keys().copied().collect::<Vec<_>>(), [began + 120_000], "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_takes_part_again_within_ten_seconds() {
    let (world, store) = World::new().await;
    let off = Arc::new(AtomicI64::new(0));
    let running = Killed(
        world.run(world.ticks_by(store, LockConfig::new(KEY).with_ttl(TTL), &off), Duration::ZERO),
    );
    sleep(2 * MINUTE).await;
    assert_eq!(world.starts().len(), 2);
    for hours in [1, -1] {
        let before = world.starts().len();
        off.store(hours * 3_600_000, Ordering::Relaxed);
        sleep(3 * MINUTE).await;
        assert_eq!(world.starts().len(), before, "a clock that is off runs nothing");
        // The clock shows 10 s after a full minute.
        off.store(0, Ordering::Relaxed);
        sleep(2 * MINUTE).await;
        let starts = world.starts();
        let last = world.minute();
        assert!(starts.contains_key(&last) && starts.contains_key(&(last - 60_000)), "{starts:?}");
        assert!(starts.values().all(|attempts| attempts == &[1]), "{starts:?}");
    }
    drop(running);
}

/// A store whose clock is behind by this many milliseconds.
#[derive(Clone)]
struct Behind(MemoryBackend, Arc<AtomicU64>);

impl LockBackend for Behind {
    type Fence = Fence;

    async fn acquire(&self, mut request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let behind = self.1.load(Ordering::Relaxed);
        request.fence_window = request.fence_window.map(|window| {
            let not_before = window.not_before().unwrap().as_millis() + behind;
            let by_this_clock = Timestamp::from_millis(not_before).unwrap();
            FenceWindow::new(window.at_least(), window.below())
                .unwrap()
                .with_not_before(by_this_clock)
        });
        self.0.acquire(request).await
    }

    forward!(0: release, extend, is_locked, lookup, watch, health, inventory, capabilities, client_state);
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_clock_was_wrong_holds_up_a_tick_for_ten_seconds_and_none_for_longer_than_allowed()
 {
    for (lateness, runs) in [(5, 2), (20, 3)] {
        let (world, store) = World::new().await;
        let first = world.minute() + 60_000;
        let behind = Arc::new(AtomicU64::new(0));
        let ticks = world.ticks(Behind(store, Arc::clone(&behind)), 0);
        let ticks = ticks.with_max_lateness(Duration::from_secs(lateness));
        let late = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&late);
        let running = Killed(tokio::spawn(ticks.run(async move |tick| {
            noted.lock().unwrap().push((tick.scheduled_at.as_millis(), tick.late_by.as_secs()));
        })));
        sleep(MINUTE).await;
        // An hour behind, from two seconds before the second tick for four seconds.
        sleep(Duration::from_secs(48)).await;
        behind.store(3_600_000, Ordering::Relaxed);
        sleep(Duration::from_secs(4)).await;
        behind.store(0, Ordering::Relaxed);
        sleep(MINUTE).await;
        drop(running);
        let late = late.lock().unwrap().clone();
        let second = (first + 60_000, 10);
        assert_eq!(late.len(), runs, "{late:?}");
        assert_eq!(late.contains(&second), lateness > 10, "{late:?}");
        assert!(late.contains(&(first + 120_000, 0)), "{late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_further_ahead_than_a_tick_may_be_late_runs_nothing() {
    let (world, store) = World::new().await;
    let strict = |off| world.ticks(store.clone(), off).with_max_lateness(Duration::from_secs(5));
    let ahead = Killed(world.run(strict(7_000), Duration::ZERO));
    sleep(3 * MINUTE).await;
    drop(ahead);
    assert!(world.starts().is_empty());
    // The call does not wait for a tick that will be too late.
    sleep(Duration::from_secs(44)).await;
    let asked = Instant::now();
    let outcome = strict(7_000).try_once(async |_| ()).await.unwrap();
    assert!(matches!(outcome, TickOutcome::TooEarly { .. }), "{outcome:?}");
    assert_eq!(asked.elapsed(), Duration::ZERO);
    let near = strict(4_500);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(near.try_once(async |_| ()).await.unwrap(), TickOutcome::Ran(()));
}

/// The process begins with a new key and a clock that is ahead.
#[tokio::test(start_paused = true)]
async fn a_new_key_waits_for_no_clock_that_was_set_right() {
    let (world, store) = World::new().await;
    let off = Arc::new(AtomicI64::new(3_600_000));
    let running = Killed(
        world.run(world.ticks_by(store, LockConfig::new(KEY).with_ttl(TTL), &off), Duration::ZERO),
    );
    sleep(MINUTE / 2).await;
    off.store(0, Ordering::Relaxed);
    sleep(3 * MINUTE).await;
    let starts = world.starts();
    assert_eq!(starts.len(), 3, "{starts:?}");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_the_release_is_told() {
    let (world, store) = World::new().await;
    let ticks = world.ticks(store.clone(), 0).with_attempts(2);
    let TickOutcome::Ran(tick) = ticks.try_once(async |tick| tick).await.unwrap() else {
        panic!("a tick is due");
    };
    assert!(tick.released().await.unwrap().is_released());
    sleep(MINUTE).await;
    let robbed = ticks.try_once(async |tick| {
        let taken_away = ReleaseRequest::new(tick.lock_id());
        assert!(store.release(taken_away).await.unwrap().is_released());
        tick
    });
    let TickOutcome::Ran(tick) = robbed.await.unwrap() else { panic!("a tick is due") };
    assert!(!tick.released().await.unwrap().is_released());
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_followed_until_the_tick_is_done_or_has_no_attempt_left() {
    for (attempts, followed) in [(3, &[1, 2][..]), (1, &[1])] {
        let (world, store) = World::new().await;
        let tick = world.minute() + 60_000;
        // Its connection is cut with it, so the lock stays until it expires.
        let dying = Connection::of(&store);
        let ticks = world.ticks(dying.clone(), 0).with_attempts(attempts);
        let dead = Killed(world.run(ticks, Duration::from_secs(3600)));
        sleep(MINUTE).await;
        assert_eq!(world.starts()[&tick], [1]);
        let alive = [10, 20].map(|off| {
            let ticks = world.ticks(Connection::of(&store), off).with_attempts(attempts);
            Killed(world.run(ticks, Duration::from_secs(2)))
        });
        dying.cut(true);
        drop(dead);
        sleep(TTL + TIME_TOLERANCE + Duration::from_secs(5)).await;
        assert_eq!(world.starts()[&tick], followed);
        sleep(MINUTE * 2).await;
        drop(alive);
        let starts = world.starts();
        assert_eq!(starts[&tick], followed, "done is done");
        assert_eq!(starts[&(tick + 60_000)], [1]);
    }
}

/// Raising the attempts after a tick runs nothing twice.
#[tokio::test(start_paused = true)]
async fn a_tick_of_one_attempt_is_marked_as_done_by_its_release() {
    let (world, store) = World::new().await;
    let connection = Connection::of(&store);
    let ticks = world.ticks(connection.clone(), 0);
    assert_eq!(ticks.try_once(async |_| ()).await.unwrap(), TickOutcome::Ran(()));
    assert_eq!(connection.counts.commands(), 2, "an acquire and a release");
    assert_eq!(ticks.status().await.unwrap().last.unwrap().attempts, None);
    let more = world.ticks(store.clone(), 0).with_attempts(3);
    assert_eq!(more.try_once(async |_| ()).await.unwrap(), TickOutcome::Taken);
    // A tick that was given up is not done.
    sleep(MINUTE).await;
    let _ = ticks.try_once(async |tick| tick.give_up()).await.unwrap();
    assert_eq!(ticks.try_once(async |_| ()).await.unwrap(), TickOutcome::Taken);
    let attempt = more.try_once(async |tick| tick.attempt).await.unwrap();
    assert_eq!(attempt, TickOutcome::Ran(2));
}

/// The store is away at the end of the work. The release goes on until the lock expires, and the mark for another TTL.
#[tokio::test(start_paused = true)]
async fn a_tick_is_marked_as_done_after_an_outage() {
    let taken = TickOutcome::Taken;
    for (outage, outcome) in [(6, taken), (16, taken), (26, TickOutcome::Ran(2))] {
        let (world, store) = World::new().await;
        let connection = Connection::of(&store);
        let ticks = world.ticks(connection.clone(), 0).with_attempts(2);
        let heals = async {
            sleep(Duration::from_secs(outage)).await;
            connection.cut(false);
        };
        let work = ticks.try_once(async |tick| {
            connection.cut(true);
            tick
        });
        let (done, ()) = tokio::join!(work, heals);
        let TickOutcome::Ran(tick) = done.unwrap() else { panic!("a tick is due") };
        assert_eq!(tick.released().await.is_ok(), outage < 20);
        let next = world.ticks(store, 0).with_attempts(2);
        assert_eq!(next.try_once(async |tick| tick.attempt).await.unwrap(), outcome);
    }
}

/// A store that answers releases late, and no extends.
#[derive(Clone)]
struct Slow(MemoryBackend, Duration);

impl LockBackend for Slow {
    type Fence = Fence;

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        sleep(self.1).await;
        self.0.release(request).await
    }

    async fn extend(&self, _: ExtendRequest) -> Result<ExtendResult, LockError> {
        pending().await
    }

    forward!(0: acquire, is_locked, lookup, watch, health, inventory, capabilities, client_state);
}

/// The store answers the release after the end of the lock. The tick stays as it is if another attempt has begun meanwhile,
/// or if the lock was over or taken away when the work ended.
#[tokio::test(start_paused = true)]
async fn a_tick_whose_release_is_answered_late_is_marked_as_done() {
    let (ttl, late) = (Duration::from_secs(3), Duration::from_millis(4_500));
    for (case, answered, outcome) in [
        ("late", late, TickOutcome::Taken),
        ("beside another attempt", late, TickOutcome::Ran(3)),
        ("over", late, TickOutcome::Ran(2)),
        ("taken away", Duration::ZERO, TickOutcome::Ran(2)),
    ] {
        let (world, store) = World::new().await;
        let ticks = world
            .ticks_as(Slow(store.clone(), answered), LockConfig::new(KEY).with_ttl(ttl), 0)
            .with_attempts(3);
        let other = world.ticks(store.clone(), 0).with_attempts(3).with_retry_after(Duration::ZERO);
        let work = ticks.try_once(async |tick| {
            match case {
                "over" => sleep(ttl).await,
                "taken away" => drop(store.release(ReleaseRequest::new(tick.lock_id())).await),
                _ => {}
            }
            tick
        });
        let meanwhile = async {
            if case == "beside another attempt" {
                sleep(ttl + TIME_TOLERANCE + Duration::from_millis(1)).await;
                let again = other.try_once(async |tick| tick.give_up()).await.unwrap();
                assert_eq!(again, TickOutcome::Ran(()));
            }
        };
        let (done, ()) = tokio::join!(work, meanwhile);
        let TickOutcome::Ran(tick) = done.unwrap() else { panic!("a tick is due") };
        let is_done = tick.released().await.unwrap().is_released();
        assert_eq!(is_done, case == "late", "{case}");
        let next = other.try_once(async |tick| tick.attempt).await.unwrap();
        assert_eq!(next, outcome, "{case}");
    }
}

/// Three processes do not use up three attempts in a row, and the attempts of a tick are counted.
#[tokio::test(start_paused = true)]
async fn the_pause_between_attempts_doubles_and_holds_for_all_processes() {
    let second = Duration::from_secs;
    for (retry_after, attempts, begun) in [
        (second(5), 4, vec![0, 5, 15, 35]),
        (second(10), 9, vec![0, 10, 30, 60]),
        (second(0), 3, vec![0, 0, 0]),
        // The lateness of a minute, and the next tick.
        (second(100), 2, vec![0, 60]),
    ] {
        let (world, store) = World::new().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let processes = [0, 10, 20].map(|off| {
            let ticks = world.ticks(Connection::of(&store), off).with_attempts(attempts);
            let (seen, world) = (Arc::clone(&seen), world.clone());
            Killed(tokio::spawn(ticks.with_retry_after(retry_after).run(async move |tick| {
                let of = (tick.scheduled_at.as_millis(), tick.attempt);
                seen.lock().unwrap().push((world.millis(), of));
                tick.give_up();
            })))
        });
        let first = world.minute() + 60_000;
        sleep(2 * MINUTE).await;
        drop(processes);
        let (seen, of): (Vec<u64>, Vec<_>) =
            seen.lock().unwrap().iter().map(|(at, of)| (at - first, *of)).unzip();
        // At the end of the minute an attempt may be of either tick.
        let early = seen.iter().zip(&of).filter(|(at, _)| **at < 59_000).map(|(_, of)| *of);
        let counted = (1..).take(begun.iter().filter(|at| **at < 60).count());
        assert!(early.eq(counted.map(|attempt| (first, attempt))), "{of:?}");
        // A clock that is 20 ms ahead ends the lateness earlier.
        let is_near = |(at, expected): (&u64, &u64)| {
            (expected * 1_000..expected * 1_000 + 2_520).contains(&(at + 20))
        };
        assert!(seen.len() >= begun.len() && seen.iter().zip(&begun).all(is_near), "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_above_an_hour_is_kept() {
    let (world, store) = World::new().await;
    let ticks = world.ticks(store, 0).with_attempts(2).with_missed(Missed::Each);
    let ticks = ticks.with_retry_after(120 * MINUTE);
    let _ = ticks.try_once(async |tick| tick.give_up()).await.unwrap();
    sleep(118 * MINUTE).await;
    assert!(matches!(ticks.try_once(async |_| ()).await.unwrap(), TickOutcome::Busy(_)));
    sleep(3 * MINUTE).await;
    let attempt = ticks.try_once(async |tick| tick.attempt).await.unwrap();
    assert_eq!(attempt, TickOutcome::Ran(2));
}

/// Runs one tick, waits for this many missed ticks, and returns the ticks that run in the ten seconds after.
async fn after_downtime(
    missed: Missed,
    lateness: Option<Duration>,
    minutes: u32,
) -> (u64, Vec<u64>) {
    let (world, store) = World::new().await;
    let ticks = || {
        let ticks = world.ticks(store.clone(), 0).with_missed(missed);
        match lateness {
            Some(lateness) => ticks.with_max_lateness(lateness),
            None => ticks,
        }
    };
    let ran = Killed(world.run(ticks(), Duration::ZERO));
    sleep(MINUTE).await;
    drop(ran);
    let ran = world.starts();
    assert_eq!(ran.len(), 1);
    // Ends 80 s after the last missed tick, where the next is 40 s ahead.
    sleep(MINUTE * minutes + Duration::from_secs(20)).await;
    let again = Killed(world.run(ticks(), Duration::from_millis(10)));
    sleep(Duration::from_secs(10)).await;
    drop(again);
    let first = *ran.keys().next().unwrap();
    (first, world.starts().into_keys().filter(|tick| *tick > first).collect())
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_made_up_for_as_one_says() {
    let short = Some(Duration::from_secs(20));
    let (_, ran) = after_downtime(Missed::Skip, short, 3).await;
    assert!(ran.is_empty(), "{ran:?}");
    let (first, ran) = after_downtime(Missed::Last, None, 3).await;
    assert_eq!(ran, [first + 3 * 60_000]);
    let (first, ran) = after_downtime(Missed::Each, None, 3).await;
    assert_eq!(ran, [1, 2, 3].map(|number| first + number * 60_000));
    let (first, ran) = after_downtime(Missed::Each, Some(2 * MINUTE), 5).await;
    assert_eq!(ran, [4, 5].map(|number| first + number * 60_000));
}

/// Cron starts the first call for a tick, and any other call for none of the past.
#[tokio::test(start_paused = true)]
async fn one_try_on_a_new_key_runs_a_tick_of_the_last_minute_alone() {
    for missed in [Missed::Skip, Missed::Last, Missed::Each] {
        let (world, store) = World::new().await;
        let hourly = Schedule::every(60 * MINUTE).unwrap();
        let at = |past: Duration| {
            let clock = world.millis() / 3_600_000 * 3_600 + past.as_secs();
            let clock = SystemTime::UNIX_EPOCH + Duration::from_secs(clock);
            Ticks::new(store.clone(), KEY, hourly.clone())
                .with_missed(missed)
                .with_clock(Arc::new(move || clock))
        };
        let late = Duration::from_secs(61);
        assert_eq!(at(late).try_once(async |_| ()).await.unwrap(), TickOutcome::NotDue);
        if missed != Missed::Skip {
            let asked = at(late).with_max_lateness(late).try_once(async |_| ()).await.unwrap();
            assert_eq!(asked, TickOutcome::Ran(()), "as the limit says");
            continue;
        }
        assert_eq!(at(MINUTE).try_once(async |_| ()).await.unwrap(), TickOutcome::Ran(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_with_plain_locks_of_the_past_has_missed_nothing() {
    // The last one is the end of 2019.
    for plain in [1, 1000, 200_000, 1_577_836_799_999] {
        let (world, store) = World::new().await;
        store.set_fence_counter(&KEY.into_key().unwrap(), Fence::new(plain).unwrap());
        let ticks = || world.ticks(store.clone(), 0).with_missed(Missed::Each);
        assert!(ticks().status().await.unwrap().last.is_none());
        let running = Killed(world.run(ticks(), Duration::ZERO));
        sleep(Duration::from_secs(40)).await;
        assert!(world.starts().is_empty(), "{plain}: {:?}", world.starts());
        sleep(Duration::from_secs(20)).await;
        drop(running);
        assert_eq!(world.starts().len(), 1);
    }
}

/// The ticks of the old schedule are none of the new one, and still say which ticks were missed.
#[tokio::test(start_paused = true)]
async fn a_schedule_that_was_changed_makes_up_for_its_missed_ticks() {
    let (world, store) = World::new().await;
    let began = world.minute();
    let old = Fence::new(began - 7 * 60_000 - 13_000).unwrap();
    store.set_fence_counter(&KEY.into_key().unwrap(), old);
    let ticks = world.ticks(store, 0).with_missed(Missed::Each);
    let running = Killed(world.run(ticks, Duration::ZERO));
    sleep(Duration::from_secs(1)).await;
    drop(running);
    assert_eq!(world.starts().len(), 8, "{:?}", world.starts());
}

#[tokio::test(start_paused = true)]
async fn a_tick_waits_for_the_end_of_the_one_before() {
    let (world, store) = World::new().await;
    let first = world.minute() + 60_000;
    let running = [0, 1]
        .map(|off| Killed(world.run(world.ticks(store.clone(), off), Duration::from_secs(80))));
    sleep(MINUTE * 5).await;
    drop(running);
    let starts = world.starts();
    // The first one runs until 80 s, the second tick begins then, and ends at 160 s: the third begins.
    assert_eq!(
        starts.keys().copied().collect::<Vec<_>>()[..3],
        [0, 1, 2].map(|n| first + n * 60_000)
    );
    assert!(starts.values().all(|attempts| attempts == &[1]), "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn one_try_says_what_became_of_the_tick() {
    let (world, store) = World::new().await;
    let ticks = |off| world.ticks(store.clone(), off);
    let once = async |off| ticks(off).try_once(async |tick| tick.attempt).await.unwrap();
    assert_eq!(once(0).await, TickOutcome::Ran(1));
    assert_eq!(once(0).await, TickOutcome::Taken);
    sleep(Duration::from_secs(48)).await;
    // 2 s before the next tick: a clock that is 3 s ahead waits for the store's.
    assert_eq!(once(0).await, TickOutcome::Taken);
    assert_eq!(once(3000).await, TickOutcome::Ran(1));
    assert_eq!(world.millis() % 60_000, 1);
    let TickOutcome::TooEarly { wait } = once(61_000).await else { panic!() };
    assert!(wait > Duration::from_secs(50), "{wait:?}");
    // An hour later, a tick that is 59 s late is too late.
    sleep(60 * MINUTE + Duration::from_secs(59)).await;
    let strict = ticks(0).with_max_lateness(Duration::from_secs(30));
    assert_eq!(strict.try_once(async |_| ()).await.unwrap(), TickOutcome::NotDue);
    let held = try_acquire(&store, KEY).await.unwrap().acquired().unwrap();
    assert!(matches!(once(0).await, TickOutcome::Busy(_)));
    held.release().await.unwrap();
    assert_eq!(once(0).await, TickOutcome::Ran(1));
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_the_last_tick_its_holder_and_the_next_one() {
    let (world, store) = World::new().await;
    let named = || LockConfig::new(KEY).with_ttl(TTL).with_holder("web-7f9c");
    let ticks = || world.ticks_as(store.clone(), named(), 0).with_attempts(2);
    let status = ticks().status().await.unwrap();
    assert!(status.last.is_none() && status.running.is_none());
    let next = world.minute() + 60_000;
    assert_eq!(status.next.unwrap().as_millis(), next);
    let running = Killed(world.run(ticks(), Duration::from_secs(5)));
    sleep(Duration::from_secs(52)).await;
    let status = ticks().status().await.unwrap();
    let last = status.last.unwrap();
    assert_eq!((last.scheduled_at.as_millis(), last.attempts), (next, Some(1)));
    assert_eq!(status.running.unwrap().holder.unwrap().label(), "web-7f9c");
    sleep(Duration::from_secs(10)).await;
    let status = ticks().status().await.unwrap();
    assert_eq!(status.last.unwrap().attempts, None, "done");
    assert!(status.running.is_none());
    drop(running);
}

/// A machine whose clock is an hour off judges by the store's, as the ticks themselves do.
#[tokio::test(start_paused = true)]
async fn the_status_goes_by_the_stores_time() {
    for hours in [-1, 0, 1] {
        let (world, store) = World::new().await;
        let ticks = world.ticks(store.clone(), hours * 3_600_000);
        let status = ticks.status().await.unwrap();
        assert_eq!(status.now.as_millis(), world.millis());
        assert_eq!(status.next.unwrap().as_millis(), world.minute() + 60_000);
        world.ticks(store, 0).try_once(async |_| ()).await.unwrap();
        // Also while a tick holds the key.
        let status = ticks.status().await.unwrap();
        assert_eq!((status.now.as_millis(), status.ahead()), (world.millis(), None));
    }
}

/// The ticks of an hour that a wrong clock has used up are not "run before", whatever is left of their attempts.
#[tokio::test(start_paused = true)]
async fn a_tick_of_the_future_is_told_apart() {
    for (attempts, counted) in [(1, 999), (1, 0), (3, 999), (3, 0)] {
        let (world, store) = World::new().await;
        let hour = Duration::from_secs(3600);
        let future = world.minute() + 3_600_000;
        let inventory = store.inventory().unwrap();
        inventory.raise_counter(KEY, Fence::new(future + counted).unwrap()).await.unwrap();
        let ticks = |off| world.ticks(store.clone(), off).with_attempts(attempts);
        for missed in [Missed::Skip, Missed::Last, Missed::Each] {
            let once = ticks(0).with_missed(missed).try_once(async |_| ()).await.unwrap();
            let TickOutcome::Ahead { by } = once else { panic!("{once:?}") };
            assert_eq!(by.as_secs().div_ceil(60), 60, "{by:?}");
        }
        let by = ticks(0).status().await.unwrap().ahead().unwrap();
        assert_eq!(by, Duration::from_secs(3590));
        // A loop says so.
        let (log, _subscriber) = LogLines::collect();
        let says = || log.take().iter().filter(|it| it.text.contains("a clock was wrong")).count();
        let running = Killed(world.run(ticks(0), Duration::ZERO));
        sleep(2 * MINUTE).await;
        assert!((1..=3).contains(&says()), "{attempts} {counted}");
        // Then the hour has come, and its tick or the next one is run.
        sleep(hour).await;
        drop(running);
        let first = if attempts > 1 && counted == 0 { 0 } else { 60_000 };
        assert_eq!(world.starts().keys().next(), Some(&(future + first)), "{attempts} {counted}");
    }
}

/// The counter is as it should be, and a process whose clock is an hour behind finds it ahead of its own.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_behind_finds_its_ticks_taken() {
    let (world, store) = World::new().await;
    world.ticks(store.clone(), 0).try_once(async |_| ()).await.unwrap();
    let (log, _subscriber) = LogLines::collect();
    let late = world.ticks(store, -3_600_000);
    assert_eq!(late.try_once(async |_| ()).await.unwrap(), TickOutcome::Taken);
    assert!(log.take().iter().any(|it| it.text.contains("clock is behind the store's")));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_schedule_after_the_work() {
    let (world, store) = World::new().await;
    let token = CancellationToken::new();
    let ticks = world.ticks(store.clone(), 0).with_shutdown(token.clone());
    let running = world.run(ticks, Duration::from_secs(5));
    sleep(Duration::from_secs(51)).await;
    token.cancel();
    let told = Instant::now();
    running.await.unwrap().unwrap();
    assert_eq!(told.elapsed(), Duration::from_secs(4));
    assert!(try_acquire(&store, KEY).await.unwrap().is_acquired(), "the lock was given back");
    // A schedule that waits ends at once.
    let ticks = world.ticks(store, 0).with_shutdown(token);
    ticks.run(async |_| ()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_whose_lock_is_lost_is_told_and_its_tick_is_followed() {
    let (world, store) = World::new().await;
    let tick = world.minute() + 60_000;
    let cut = Connection::of(&store);
    let told = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&told);
    let (at, ticks) = (world.clone(), world.ticks(cut.clone(), 0).with_attempts(2));
    let running = Killed(tokio::spawn(ticks.run(async move |tick| {
        at.note(tick.scheduled_at.as_millis(), tick.attempt);
        tick.lost().await;
        *noted.lock().unwrap() = Some(at.millis());
        pending::<()>().await;
    })));
    sleep_until(Instant::now() + Duration::from_secs(52)).await;
    cut.cut(true);
    let other = Killed(world.run(world.ticks(store, 0).with_attempts(2), Duration::ZERO));
    sleep(Duration::from_secs(20)).await;
    drop((running, other));
    assert_eq!(world.starts()[&tick], [1, 2]);
    let told = told.lock().unwrap().unwrap();
    assert!(told <= tick + 14_000, "{}", told - tick);
}

/// A backend that does not know windows, and says so.
#[derive(Clone)]
struct Plain(MemoryBackend);

impl LockBackend for Plain {
    type Fence = Fence;

    forward!(0: acquire, release, extend, is_locked, lookup, watch, health, inventory, client_state);

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("plain", TimeAuthority::Server)
    }
}

#[tokio::test(start_paused = true)]
async fn bad_settings_and_backends_without_windows_are_refused() {
    let (world, store) = World::new().await;
    let code =
        async |ticks: Ticks<MemoryBackend>| ticks.run(async |_| ()).await.unwrap_err().code();
    let invalid = ErrorCode::InvalidArgument;
    for attempts in [0, 1000] {
        assert_eq!(code(world.ticks(store.clone(), 0).with_attempts(attempts)).await, invalid);
    }
    let set = || LockConfig::new(KEY);
    for config in [
        set().with_ttl(Duration::ZERO),
        set().with_wait_up_to(TTL),
        set().with_ride_out(TTL),
        set().with_cancellation(CancellationToken::new()),
        set().with_min_hold(TTL),
    ] {
        assert_eq!(code(world.ticks_as(store.clone(), config, 0)).await, invalid);
    }
    let plain = world.ticks(Plain(store), 0);
    let error = plain.try_once(async |_| ()).await.unwrap_err();
    assert_eq!(error.code(), invalid);
    assert!(error.to_string().contains("plain"), "{error}");
    for period in [Duration::ZERO, Duration::from_millis(1500), Duration::MAX] {
        assert_eq!(Schedule::every(period).unwrap_err().code(), invalid, "{period:?}");
    }
}
