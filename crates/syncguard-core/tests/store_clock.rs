//! The store's time in bounds, as answers narrow them and time widens them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use syncguard_core::Timestamp;
use syncguard_core::authoring::{SentAt, ServerTime, StoreClock, StoreTime};
use syncguard_core::diagnostics::ClockDrift;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: i64 = 3_600_000;
/// The highest timestamp.
const LAST: u64 = (1 << 53) - 1;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn deadline(clock: &StoreClock) -> u64 {
    clock.deadline(SECOND).unwrap().as_millis()
}

async fn pass(millis: u64) {
    tokio::time::advance(Duration::from_millis(millis)).await;
}

/// The earliest and the latest time in milliseconds, and whether the store has told them.
fn now(clock: &StoreClock) -> (i64, i64, bool) {
    let StoreTime { earliest, latest, is_told, .. } = clock.now().unwrap();
    (earliest.as_millis().cast_signed(), latest.as_millis().cast_signed(), is_told)
}

/// The source says now that it is this many milliseconds after 1970, exactly.
fn says(clock: &StoreClock, source: usize, millis: i64) {
    let shown = ServerTime { unix_micros: millis * 1000, unit_micros: 0 };
    clock.hears(source, SentAt::now(), shown);
}

/// A clock whose wall clock is this many milliseconds after 1970, and can be set.
fn clock(sources: usize, wall: i64) -> (StoreClock, Arc<AtomicI64>) {
    let wall = Arc::new(AtomicI64::new(wall));
    let shown = Arc::clone(&wall);
    let millis = move || shown.load(Ordering::Relaxed).unsigned_abs();
    let time = move || UNIX_EPOCH + Duration::from_millis(millis());
    (StoreClock::of(sources, Arc::new(time)), wall)
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_never_before_the_bound_is_over() {
    let (clock, base) = (StoreClock::default(), Instant::now());
    assert_eq!(clock.deadline(SECOND), None);
    // The store's clock shows 5 000 000 at the base. It answers at any point of the round trip.
    for (there, back) in [(100, 0), (0, 100), (50, 50), (3, 1), (400, 600), (0, 0)] {
        let elapsed = || u64::try_from(base.elapsed().as_millis()).unwrap();
        let sent = Instant::now();
        pass(there).await;
        let shown = 5_000_000 + elapsed();
        pass(back).await;
        clock.learn(sent, at(shown));
        let real = 5_000_000 + elapsed();
        let deadline = deadline(&clock) - 1_000;
        assert!((real..real + 105).contains(&deadline), "{there} {back}: {deadline} {real}");
        let time = clock.now().unwrap();
        assert!(time.earliest <= at(real) && at(real) <= time.latest, "{time:?} {real}");
    }
}

#[tokio::test(start_paused = true)]
async fn bounds_narrow_by_each_answer_and_widen_with_time() {
    let (clock, _) = clock(1, 0);
    let shown = ServerTime { unix_micros: 10_000_000, unit_micros: 1_000_000 };
    clock.hears(0, SentAt::now(), shown);
    assert_eq!(now(&clock), (10_000, 11_000, true));
    // A second that begins between two answers narrows the bounds to their distance.
    pass(30).await;
    clock.hears(0, SentAt::now(), ServerTime { unix_micros: 11_000_000, ..shown });
    assert_eq!(now(&clock), (11_000, 11_031, true));
    pass(10_000).await;
    assert_eq!(now(&clock), (20_990, 21_041, true));
    // An answer that took long says nothing new.
    let sent = SentAt::now();
    pass(3000).await;
    clock.hears(0, sent, ServerTime { unix_micros: 22_000_000, ..shown });
    assert_eq!(now(&clock), (23_987, 24_044, true));
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_clock_is_set_is_both_early_and_late_for_a_while() {
    let (clock, _) = clock(1, 0);
    says(&clock, 0, HOUR);
    for set in [3 * HOUR, 2 * HOUR] {
        says(&clock, 0, set);
        assert_eq!(now(&clock), (HOUR, 3 * HOUR, true));
        assert_eq!(deadline(&clock).cast_signed(), set + 1_002, "deadlines go by the new time");
    }
    pass(121_000).await;
    says(&clock, 0, 2 * HOUR + 121_000);
    assert_eq!(now(&clock), (2 * HOUR + 121_000, 2 * HOUR + 121_000, true));
}

#[tokio::test(start_paused = true)]
async fn a_majority_decides() {
    let told = |says_so: &[(usize, i64)], sources| {
        let (clock, _) = clock(sources, 9 * HOUR);
        for (source, time) in says_so {
            says(&clock, *source, *time);
        }
        now(&clock)
    };
    let h = HOUR;
    assert_eq!(told(&[(0, h), (1, h + 300), (2, 2 * h)], 3), (h + 300, h + 300, true));
    assert_eq!(told(&[(0, h), (1, h + 300), (2, 0)], 3), (h, h, true));
    assert_eq!(told(&[(0, h), (2, h + 300)], 3), (h, h + 300, true));
    assert_eq!(told(&[(0, h), (1, 3 * h)], 2), (h, 3 * h, true), "one of two is wrong");
    let five = [(0, h), (1, h + 100), (2, 5 * h), (3, h + 200), (4, 0)];
    assert_eq!(told(&five, 5), (h + 100, h + 100, true));
    // No process is early where another one is late, whichever members they know.
    for of_one in 0..32_u32 {
        for of_other in 0..32_u32 {
            let known = |set: u32| five.iter().filter(move |(n, _)| set & (1 << n) != 0);
            let [one, other] =
                [of_one, of_other].map(|set| told(&known(set).copied().collect::<Vec<_>>(), 5));
            assert!(!(one.2 && other.2) || one.0 <= other.1, "{of_one} {of_other}");
        }
    }
    assert_eq!(told(&[(0, h)], 3), (h, 9 * h, false), "fewer, and this machine's clock");
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_clock_is_wrong_is_found() {
    let (clock, wall) = clock(3, HOUR + 700);
    assert_eq!((clock.drift_of(2), clock.drift()), (None, None));
    for (source, time) in [(0, HOUR), (1, HOUR), (2, 2 * HOUR)] {
        says(&clock, source, time);
    }
    let off = |drift: Option<ClockDrift>| drift.unwrap().millis();
    assert_eq!((off(clock.drift_of(0)), off(clock.drift_of(2))), (0, HOUR));
    assert_eq!(off(clock.drift()), 700);
    wall.store(0, Ordering::Relaxed);
    assert_eq!(clock.drift().unwrap().at_least(), Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn without_the_stores_time_both_readings_of_a_set_clock_count() {
    let (clock, wall) = clock(1, 5 * HOUR);
    assert_eq!(now(&clock), (5 * HOUR, 5 * HOUR, false));
    wall.store(6 * HOUR, Ordering::Relaxed);
    assert_eq!(now(&clock), (5 * HOUR, 6 * HOUR, false));
    wall.store(4 * HOUR, Ordering::Relaxed);
    assert_eq!(now(&clock), (4 * HOUR, 6 * HOUR, false));
    says(&clock, 0, 2 * HOUR);
    assert_eq!(now(&clock), (2 * HOUR, 2 * HOUR, true));
}

#[tokio::test(start_paused = true)]
async fn a_strict_backend_refuses_what_it_does_not_know() {
    let (clock, _) = clock(1, 0);
    assert!(clock.now().unwrap().check(false).is_err());
    let shown = ServerTime { unix_micros: 10_000_000, unit_micros: 1_000_001 };
    clock.hears(0, SentAt::now(), shown);
    let time = clock.now().unwrap();
    assert!(time.check(false).is_ok() && time.check(true).is_err());
    clock.hears(0, SentAt::now(), ServerTime { unit_micros: 1_000_000, ..shown });
    assert!(clock.now().unwrap().check(true).is_ok());
}

#[tokio::test(start_paused = true)]
async fn it_says_when_a_deadline_has_passed() {
    let clock = StoreClock::default();
    assert_eq!(clock.passes_in(at(7)), Duration::ZERO);
    clock.learn(Instant::now(), at(1_000_000));
    let deadline = clock.deadline(SECOND).unwrap();
    let left = clock.passes_in(deadline);
    assert!(left >= SECOND && left <= SECOND + Duration::from_millis(4), "{left:?}");
    pass(2_000).await;
    assert_eq!(clock.passes_in(deadline), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn no_bound_is_too_long() {
    let clock = StoreClock::default();
    clock.learn(Instant::now(), at(LAST));
    assert!(clock.deadline(Duration::MAX).unwrap().as_millis() > LAST / 10);
    assert!(clock.passes_in(at(LAST)) > SECOND);
    assert!(clock.now().is_ok());
}
