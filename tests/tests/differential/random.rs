//! Random sequences of steps have the same answers on every store and on every simulated server, except for times.

#![allow(clippy::print_stdout, reason = "the seed, to run them again")]

use std::iter::repeat_n;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use syncguard::authoring::recipes::{FenceWindow, Refusal};
use syncguard::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
    TIME_TOLERANCE,
};
use syncguard::{DynBackend, Fence, Key, LockBackend as _, LockError, LockId, Timestamp};
use syncguard_history::Random;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::differential::stores::{fresh, simulated};

const KEYS: [&str; 4] = ["a", "b/c", "caf\u{e9}", "fence:a"];

/// The lock ids of a part of a sequence, the same number for each key: not every store notices an id that is used for two.
const IDS: usize = 3 * KEYS.len();

const PARTS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Act {
    Acquire,
    Release,
    Extend,
    IsLocked,
    ByKey,
    ById,
    /// Time passes until every lock has expired.
    Expire,
}

/// A step, with numbers for key and lock id.
#[derive(Clone, Copy, Debug)]
struct Step {
    act: Act,
    key: usize,
    id: usize,
    ttl: Duration,
    /// The window of an acquire, with true if its time is far ahead; the first is also the counter of a release.
    fences: Option<(u64, u64, bool)>,
}

/// One step of a part of a sequence. It can name locks of earlier parts, but acquires none of them again, because stores
/// remember an expired id for different times.
fn step(part: usize, ttls: &[Duration]) -> impl Strategy<Value = Step> + use<> {
    use Act::{Acquire, ById, ByKey, Extend, IsLocked, Release};
    let acts =
        [Acquire, Release, Extend, IsLocked, ByKey, ById].into_iter().zip([6, 4, 2, 1, 1, 1]);
    let acts: Vec<Act> = acts.flat_map(|(act, times)| repeat_n(act, times)).collect();
    let act = prop::sample::select(acts);
    // The windows are few and near the counters of such sequences.
    let window = (1..12_u64, 0..3_u64, prop::bool::weighted(0.1));
    let window = window.prop_map(|(first, more, is_early)| (first, first + more, is_early));
    let ttl = prop::sample::select(ttls.to_vec());
    (act, 0..IDS, 0..=part, 0..KEYS.len(), ttl, prop::option::weighted(0.3, window)).prop_map(
        move |(act, id, of_part, other, ttl, fences)| {
            let own = id * KEYS.len() / IDS;
            // A release raises the counter of another key now and then.
            let is_astray = matches!(act, Release) && other == 0;
            let of_part = if matches!(act, Acquire) { part } else { of_part };
            let key = if is_astray { (own + 1) % KEYS.len() } else { own };
            Step { act, key, id: id + IDS * of_part, ttl, fences }
        },
    )
}

/// The answer, without times. A lock that has expired is not held, whether or not the store remembers it.
async fn answer(backend: &DynBackend, step: Step, ids: &[LockId]) -> Result<String, LockError> {
    let (key, id) = (KEYS[step.key], ids[step.id]);
    let find = async |request| {
        let Some(lock) = backend.lookup(request).await? else {
            return Ok::<_, LockError>(String::new());
        };
        let owner = ids.iter().position(|id| *id == lock.lock_id);
        // An extend counts from its own time.
        let lives = lock.expires_at.as_millis() - lock.acquired_at.as_millis();
        let half_minutes = (lives + 10_000) / 30_000;
        Ok(format!("{} {owner:?} {} {half_minutes}", lock.key.expose(), lock.fence))
    };
    Ok(match step.act {
        Act::Acquire => {
            let mut request = AcquireRequest::new(key, step.ttl)?.with_lock_id(id);
            if let Some((first, limit, is_early)) = step.fences {
                let window = FenceWindow::new(Fence::new(first)?, Fence::new(limit)?)?;
                let from = Timestamp::from_millis(if is_early { YEAR_2100 } else { 1 })?;
                request = request.with_fence_window(window.with_not_before(from));
            }
            match backend.acquire(request).await? {
                AcquireResult::Acquired(lock) => format!("acquired {}", lock.fence),
                AcquireResult::Busy(_) => "locked".to_owned(),
                AcquireResult::Refused(Refusal::Taken { counter }) => format!("taken {counter}"),
                AcquireResult::Refused(Refusal::TooEarly { .. }) => "too early".to_owned(),
            }
        }
        Act::Release => {
            let mut request = ReleaseRequest::new(id);
            if let Some((counter, ..)) = step.fences {
                request = request.with_counter_at_least(Key::new(key)?, Fence::new(counter)?)?;
            }
            backend.release(request).await?.is_released().to_string()
        }
        Act::Extend => {
            backend.extend(ExtendRequest::new(id, step.ttl)?).await?.is_extended().to_string()
        }
        Act::IsLocked => backend.is_locked(IsLockedRequest::new(key)?).await?.to_string(),
        Act::ByKey => find(LookupRequest::by_key(key)?).await?,
        Act::ById => find(LookupRequest::by_lock_id(id)).await?,
        Act::Expire => String::new(),
    })
}

/// In milliseconds since the Unix epoch.
const YEAR_2100: u64 = 4_102_444_800_000;

/// A new backend of etcd knows the time to a second, when it writes an expiry and when it judges one.
const BOUNDS: Duration = Duration::from_millis(2_200);

/// Takes the steps everywhere. Returns false if the machine was too busy: locks may have expired between two steps.
async fn alike(steps: Vec<Step>) -> Result<bool, String> {
    let (stores, simulated) = (fresh().await, simulated());
    let backends: Vec<&DynBackend> = stores.iter().chain(&simulated).collect();
    let ids: Vec<LockId> =
        (0..PARTS * IDS).map(|_| LockId::generate().expect("randomness")).collect();
    let shortest = steps.iter().map(|step| step.ttl).min().unwrap_or_default();
    let longest = steps.iter().map(|step| step.ttl).max().unwrap_or_default();
    let mut part = Instant::now();
    for (number, step) in steps.iter().enumerate() {
        if matches!(step.act, Act::Expire) {
            tokio::time::sleep(longest + TIME_TOLERANCE + BOUNDS).await;
            part = Instant::now();
            continue;
        }
        let answers = backends.iter().map(async |backend| {
            answer(backend, *step, &ids).await.unwrap_or_else(|error| error.code().to_string())
        });
        let answers = join_all(answers).await;
        if part.elapsed() > shortest {
            return Ok(false);
        }
        if !answers.iter().all(|answer| *answer == answers[0]) {
            return Err(format!("step {number} of {steps:?}: {answers:?}"));
        }
    }
    Ok(true)
}

fn runner(cases: u32) -> TestRunner {
    let seed = Random::seed();
    println!("SYNCGUARD_SEED={seed}");
    let mut random = Random::new(seed);
    let seed: Vec<u8> = (0..4).flat_map(|_| random.number().to_le_bytes()).collect();
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

#[test]
fn random_sequences_have_the_same_answers() {
    let runtime = Runtime::new().expect("a runtime");
    let ttls = [60, 600].map(Duration::from_secs);
    let steps = prop::collection::vec(step(0, &ttls), 1..40);
    let alike = |steps| {
        prop_assert_eq!(runtime.block_on(alike(steps)), Ok(true));
        Ok(())
    };
    runner(30).run(&steps, alike).unwrap_or_else(|failure| panic!("{failure}"));
}

/// How many sequences with expiry run side by side, and their TTLs: long enough that no lock expires between two steps.
/// A busy machine gets fewer at once and longer TTLs.
const ROUNDS: [(usize, u64); 5] = [(16, 2_500), (16, 2_500), (12, 4_000), (8, 6_000), (4, 9_000)];

/// Three parts, with the expiry of all locks in between.
#[tokio::test]
async fn sequences_with_expiry_have_the_same_answers() {
    let (mut runner, mut compared) = (runner(1), 0);
    for (sequences, ttl) in ROUNDS.into_iter().chain(repeat_n((2, 9_000), 8)) {
        let ttl = Duration::from_millis(ttl);
        let part = |part| prop::collection::vec(step(part, &[ttl]), 1..8);
        let expire = [Step { act: Act::Expire, key: 0, id: 0, ttl, fences: None }];
        let steps = (part(0), part(1), part(2))
            .prop_map(|(one, two, three)| [&one[..], &expire, &two, &expire, &three].concat());
        let mut tasks = JoinSet::new();
        for _ in 0..sequences {
            tasks.spawn(alike(steps.new_tree(&mut runner).expect("steps").current()));
        }
        for result in tasks.join_all().await {
            compared += usize::from(result.unwrap_or_else(|difference| panic!("{difference}")));
        }
        if compared >= 12 {
            return;
        }
    }
    panic!("this machine is too busy: only {compared} sequences could be compared");
}
