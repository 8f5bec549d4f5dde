//! Sequences of operations, and their answers without times and lock ids, which differ between stores.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::{Union, ValueTree as _};
use proptest::test_runner::TestRunner;
use syncguard::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, FenceWindow, IsLockedRequest, LookupRequest,
    Refusal, ReleaseRequest, TIME_TOLERANCE,
};
use syncguard::{
    DynBackend, ErrorCode, ExtendResult, Fence, Key, LockBackend, LockError, LockId, NotHeld,
    ReleaseResult, Timestamp,
};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// A step, with numbers for keys and lock ids. TTLs are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what the requests are made of")]
pub enum Step {
    /// Acquires a key under a lock id.
    Acquire { key: usize, id: usize, ttl: u64 },
    /// Acquires a key under a lock id with a fence in a window, whose time is past or far ahead.
    AcquireInWindow { key: usize, id: usize, ttl: u64, at_least: u64, below: u64, is_early: bool },
    /// Releases the lock with an id.
    Release { id: usize },
    /// Releases the lock with an id, and raises the counter of a key.
    ReleaseCounted { key: usize, id: usize, at_least: u64 },
    /// Extends the lock with an id.
    Extend { id: usize, ttl: u64 },
    /// Asks whether a key is locked.
    IsLocked { key: usize },
    /// Looks up the lock of a key.
    ByKey { key: usize },
    /// Looks up the lock with an id.
    ById { id: usize },
    /// Lets this many milliseconds pass.
    Pass { millis: u64 },
}

/// An answer without times.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what the results are made of")]
pub enum Answer {
    Acquired(u64),
    Locked,
    /// The counter has reached the limit of the window.
    Taken(u64),
    TooEarly,
    Released,
    Extended,
    NotHeld(NotHeld),
    Is(bool),
    Found(Option<Found>),
    Failed(ErrorCode),
    Passed,
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The key.
    pub key: String,
    /// The number of the lock id.
    pub id: Option<usize>,
    /// The fence.
    pub fence: u64,
    /// The whole life of the lock in half minutes: an extend counts from its own time.
    pub half_minutes: u64,
}

impl Answer {
    /// Returns true if two stores may differ like this: an expired lock is "expired" as long as the store remembers
    /// it, and "not found" after that.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        matches!((self, other), (Self::NotHeld(_), Self::NotHeld(_))) || self == other
    }
}

/// The keys and lock ids behind the numbers.
#[derive(Clone, Debug)]
pub struct Names {
    /// The keys.
    pub keys: Vec<String>,
    /// The lock ids.
    pub ids: Vec<LockId>,
}

impl Names {
    /// Takes these keys, and makes as many new lock ids.
    #[must_use]
    pub fn new(keys: &[&str], ids: usize) -> Self {
        let ids = (0..ids).map(|_| LockId::generate().expect("randomness")).collect();
        Self { keys: keys.iter().map(|key| (*key).to_owned()).collect(), ids }
    }
}

/// Takes a step. The caller lets time pass.
pub async fn take<B>(backend: &B, step: Step, names: &Names) -> Answer
where
    B: LockBackend<Fence = Fence>,
{
    let answer = try_to_take(backend, step, names).await;
    answer.unwrap_or_else(|error| Answer::Failed(error.code()))
}

async fn try_to_take<B>(backend: &B, step: Step, names: &Names) -> Result<Answer, LockError>
where
    B: LockBackend<Fence = Fence>,
{
    let key = |key: usize| names.keys[key].as_str();
    Ok(match step {
        Step::Acquire { key: of, id, ttl } => {
            let request = AcquireRequest::new(key(of), Duration::from_millis(ttl))?;
            acquire(backend, request.with_lock_id(names.ids[id])).await?
        }
        Step::AcquireInWindow { key: of, id, ttl, at_least, below, is_early } => {
            let window = FenceWindow::new(Fence::new(at_least)?, Fence::new(below)?)?;
            let not_before = Timestamp::from_millis(if is_early { YEAR_2100 } else { 1 })?;
            let request = AcquireRequest::new(key(of), Duration::from_millis(ttl))?
                .with_lock_id(names.ids[id])
                .with_fence_window(window.with_not_before(not_before));
            acquire(backend, request).await?
        }
        Step::Release { id } => release(backend, ReleaseRequest::new(names.ids[id])).await?,
        Step::ReleaseCounted { key: of, id, at_least } => {
            let (request, key) = (ReleaseRequest::new(names.ids[id]), Key::new(key(of))?);
            release(backend, request.with_counter_at_least(key, Fence::new(at_least)?)?).await?
        }
        Step::Extend { id, ttl } => {
            let request = ExtendRequest::new(names.ids[id], Duration::from_millis(ttl))?;
            match backend.extend(request).await? {
                ExtendResult::Extended { .. } => Answer::Extended,
                ExtendResult::NotHeld(reason) => Answer::NotHeld(reason),
                _ => return Err(LockError::internal("no expiry was expected")),
            }
        }
        Step::IsLocked { key: of } => {
            Answer::Is(backend.is_locked(IsLockedRequest::new(key(of))?).await?)
        }
        Step::ByKey { key: of } => find(backend, LookupRequest::by_key(key(of))?, names).await?,
        Step::ById { id } => find(backend, LookupRequest::by_lock_id(names.ids[id]), names).await?,
        Step::Pass { .. } => Answer::Passed,
    })
}

/// In milliseconds since the Unix epoch.
const YEAR_2100: u64 = 4_102_444_800_000;

async fn acquire<B>(backend: &B, request: AcquireRequest) -> Result<Answer, LockError>
where
    B: LockBackend<Fence = Fence>,
{
    Ok(match backend.acquire(request).await? {
        AcquireResult::Acquired(lock) => Answer::Acquired(lock.fence.get()),
        AcquireResult::Busy(_) => Answer::Locked,
        AcquireResult::Refused(Refusal::Taken { counter }) => Answer::Taken(counter.get()),
        AcquireResult::Refused(Refusal::TooEarly { .. }) => Answer::TooEarly,
    })
}

async fn release<B>(backend: &B, request: ReleaseRequest) -> Result<Answer, LockError>
where
    B: LockBackend<Fence = Fence>,
{
    Ok(match backend.release(request).await? {
        ReleaseResult::NotHeld(reason) => Answer::NotHeld(reason),
        _ => Answer::Released,
    })
}

async fn find<B>(backend: &B, request: LookupRequest, names: &Names) -> Result<Answer, LockError>
where
    B: LockBackend<Fence = Fence>,
{
    let found = backend.lookup(request).await?.map(|info| {
        let found = info.expose();
        let lives = found.info.expires_at.as_millis() - found.info.acquired_at.as_millis();
        Found {
            key: found.key.expose().to_owned(),
            id: names.ids.iter().position(|id| *id == found.lock_id),
            fence: found.info.fence.get(),
            half_minutes: (lives + 10_000) / 30_000,
        }
    });
    Ok(Answer::Found(found))
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The answers were the same.
    Alike,
    /// The machine was too busy: locks may have expired between two steps.
    TooSlow,
}

/// Takes the same steps on several backends, each on a store of its own. Time passes for all of them at once.
///
/// # Errors
///
/// The first step with two different answers.
pub async fn compare(
    backends: &[DynBackend],
    steps: &[Step],
    names: &Names,
) -> Result<Comparison, String> {
    let lives = steps.iter().filter_map(|step| match step {
        Step::Acquire { ttl, .. }
        | Step::AcquireInWindow { ttl, .. }
        | Step::Extend { ttl, .. } => Some(*ttl),
        _ => None,
    });
    let shortest = lives.min().map_or(Duration::MAX, Duration::from_millis);
    let mut part = Instant::now();
    for (number, step) in steps.iter().enumerate() {
        if let Step::Pass { millis } = step {
            tokio::time::sleep(Duration::from_millis(*millis)).await;
            part = Instant::now();
            continue;
        }
        let mut answers = Vec::new();
        for backend in backends {
            answers.push((backend.capabilities().backend, take(backend, *step, names).await));
        }
        if part.elapsed() > shortest {
            return Ok(Comparison::TooSlow);
        }
        if !answers.iter().all(|(_, answer)| answer.is_like(&answers[0].1)) {
            return Err(format!("step {number} of {steps:?}: {answers:?}"));
        }
    }
    Ok(Comparison::Alike)
}

/// The distribution of steps.
#[derive(Clone, Debug)]
pub struct Mix {
    /// The number of keys.
    pub keys: usize,
    /// The number of lock ids.
    pub ids: usize,
    /// True if each id is used for one key only: not every store notices an id that is used for two keys.
    pub ids_have_keys: bool,
    /// The TTLs, in milliseconds.
    pub ttls: Vec<u64>,
    /// The pauses in milliseconds; empty if time does not pass.
    pub passes: Vec<u64>,
}

impl Mix {
    /// One step.
    pub fn step(&self) -> BoxedStrategy<Step> {
        let (keys, ids, tied) = (self.keys, self.ids, self.ids_have_keys);
        let (key, id) = (move || 0..keys, move || 0..ids);
        let ttl = || prop::sample::select(self.ttls.clone());
        let key_of = move |key, id| if tied { id * keys / ids } else { key };
        let acquire = (key(), id(), ttl()).prop_map(move |(key, id, ttl)| Step::Acquire {
            key: key_of(key, id),
            id,
            ttl,
        });
        // The windows are few and near the counters of such sequences.
        let in_window = (key(), id(), ttl(), 1..12_u64, 0..3_u64, prop::bool::weighted(0.1));
        let in_window = in_window.prop_map(move |(key, id, ttl, at_least, more, is_early)| {
            let (key, below) = (key_of(key, id), at_least + more);
            Step::AcquireInWindow { key, id, ttl, at_least, below, is_early }
        });
        let counted = (key(), id(), 1..12_u64).prop_map(move |(key, id, at_least)| {
            // Now and then another key than that of the lock.
            let key = if at_least % 4 == 0 { key } else { key_of(key, id) };
            Step::ReleaseCounted { key, id, at_least }
        });
        let mut steps = vec![
            (4, acquire.boxed()),
            (2, in_window.boxed()),
            (3, id().prop_map(|id| Step::Release { id }).boxed()),
            (1, counted.boxed()),
            (2, (id(), ttl()).prop_map(|(id, ttl)| Step::Extend { id, ttl }).boxed()),
            (1, key().prop_map(|key| Step::IsLocked { key }).boxed()),
            (1, key().prop_map(|key| Step::ByKey { key }).boxed()),
            (1, id().prop_map(|id| Step::ById { id }).boxed()),
        ];
        if !self.passes.is_empty() {
            let millis = prop::sample::select(self.passes.clone());
            steps.push((2, millis.prop_map(|millis| Step::Pass { millis }).boxed()));
        }
        Union::new_weighted(steps).boxed()
    }

    /// Up to 39 steps.
    pub fn steps(&self) -> BoxedStrategy<Vec<Step>> {
        prop::collection::vec(self.step(), 1..40).boxed()
    }

    /// Three parts, with the expiry of all locks in between. There must be three times as many lock ids as in the
    /// mix, because stores remember an expired id for different times, so no id is used again.
    pub fn with_expiry(&self) -> BoxedStrategy<Vec<Step>> {
        let ids = self.ids;
        let part = move |part: usize, step: BoxedStrategy<Step>| {
            let steps = prop::collection::vec((step, 0..=part), 1..8);
            steps.prop_map(move |steps| {
                let later = |(step, earlier): (Step, usize)| match step {
                    Step::Acquire { key, id, ttl } => {
                        Step::Acquire { key, id: id + ids * part, ttl }
                    }
                    Step::AcquireInWindow { key, id, ttl, at_least, below, is_early } => {
                        let id = id + ids * part;
                        Step::AcquireInWindow { key, id, ttl, at_least, below, is_early }
                    }
                    Step::Release { id } => Step::Release { id: id + ids * earlier },
                    Step::ReleaseCounted { key, id, at_least } => {
                        Step::ReleaseCounted { key, id: id + ids * earlier, at_least }
                    }
                    Step::Extend { id, ttl } => Step::Extend { id: id + ids * earlier, ttl },
                    Step::ById { id } => Step::ById { id: id + ids * earlier },
                    other => other,
                };
                steps.into_iter().map(later).collect::<Vec<_>>()
            })
        };
        let longest = self.ttls.iter().max().copied().unwrap_or_default();
        let tolerance = u64::try_from(TIME_TOLERANCE.as_millis()).unwrap_or_default();
        let pass = vec![Step::Pass { millis: longest + tolerance + 20 }];
        (part(0, self.step()), part(1, self.step()), part(2, self.step()))
            .prop_map(move |(one, two, three)| {
                [one, pass.clone(), two, pass.clone(), three].concat()
            })
            .boxed()
    }
}

/// Compares sequences one after another, as many as the runner's setting. All must agree.
pub fn all_alike<F>(runner: &mut TestRunner, mix: &Mix, compared: impl Fn(Vec<Step>) -> F)
where
    F: Future<Output = Result<Comparison, String>>,
{
    let runtime = Runtime::new().expect("a runtime");
    let alike = |steps| {
        prop_assert_eq!(runtime.block_on(compared(steps)), Ok(Comparison::Alike));
        Ok(())
    };
    runner.run(&mix.steps(), alike).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Compares this many sequences with expiry side by side. None may differ; returns how many could be compared.
pub async fn count_alike<F>(
    runner: &mut TestRunner,
    mix: &Mix,
    sequences: usize,
    compared: impl Fn(Vec<Step>) -> F,
) -> usize
where
    F: Future<Output = Result<Comparison, String>> + Send + 'static,
{
    let steps = mix.with_expiry();
    let mut tasks = JoinSet::new();
    for _ in 0..sequences {
        tasks.spawn(compared(steps.new_tree(runner).expect("steps").current()));
    }
    let results: Result<Vec<_>, _> = tasks.join_all().await.into_iter().collect();
    let results = results.unwrap_or_else(|difference| panic!("{difference}"));
    results.iter().filter(|result| **result == Comparison::Alike).count()
}
