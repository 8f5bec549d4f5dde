//! The same sequences on the emulator and on the embedded backend: the same answers.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use syncguard_firestore::{
    AcquireRequest, AcquireResult, ErrorCode, ExtendRequest, ExtendResult, Fence, IsLockedRequest,
    LockBackend, LockId, LockInfo, LookupRequest, NotHeld, ReleaseRequest, ReleaseResult,
};
use syncguard_memory::MemoryBackend;
use tokio::runtime::Builder;

use crate::support::{backend_with, fresh, hand_clock, options};

/// What is done, with keys and lock ids out of small numbers of them. A lock id belongs to one key:
/// only a backend that remembers the other one can tell.
#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire {
        key: usize,
        id: usize,
    },
    Release {
        id: usize,
    },
    Extend {
        id: usize,
    },
    IsLocked {
        key: usize,
    },
    ByKey {
        key: usize,
    },
    ById {
        id: usize,
    },
    /// Lets all locks run out.
    Pass,
}

/// What is answered, without the times.
#[derive(Debug, PartialEq)]
enum Answer {
    Acquired(Fence),
    Locked,
    Done,
    NotHeld(NotHeld),
    Is(bool),
    Found(Option<(String, LockId, Fence)>),
    Failed(ErrorCode),
    Passed,
}

const KEYS: [&str; 4] = ["a", "b/c", "é", "__a__"];

/// How many lock ids each key has at a time.
const IDS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let (key, id) = (|| 0..KEYS.len(), || 0..KEYS.len() * IDS);
    prop_oneof![
        4 => id().prop_map(|id| Step::Acquire { key: id / IDS, id }),
        3 => id().prop_map(|id| Step::Release { id }),
        2 => id().prop_map(|id| Step::Extend { id }),
        1 => key().prop_map(|key| Step::IsLocked { key }),
        1 => key().prop_map(|key| Step::ByKey { key }),
        1 => id().prop_map(|id| Step::ById { id }),
    ]
}

async fn take_step<B>(backend: &B, step: Step, ids: &[LockId]) -> Answer
where
    B: LockBackend<Fence = Fence>,
{
    let lookup = |request| async {
        backend.lookup(request).await.map(|found| {
            let found = found.map(LockInfo::expose);
            Answer::Found(
                found.map(|lock| (lock.key.expose().to_owned(), lock.lock_id, lock.info.fence)),
            )
        })
    };
    let answer = match step {
        Step::Acquire { key, id } => {
            let request = AcquireRequest::new(KEYS[key], TTL).unwrap().with_lock_id(ids[id]);
            backend.acquire(request).await.map(|result| match result {
                AcquireResult::Acquired(lock) => Answer::Acquired(lock.fence),
                AcquireResult::Locked => Answer::Locked,
            })
        }
        Step::Release { id } => {
            backend.release(ReleaseRequest::new(ids[id])).await.map(|result| match result {
                ReleaseResult::Released => Answer::Done,
                ReleaseResult::NotHeld(reason) => Answer::NotHeld(reason),
            })
        }
        Step::Extend { id } => {
            let request = ExtendRequest::new(ids[id], TTL).unwrap();
            backend.extend(request).await.map(|result| match result {
                ExtendResult::Extended { .. } => Answer::Done,
                ExtendResult::NotHeld(reason) => Answer::NotHeld(reason),
            })
        }
        Step::IsLocked { key } => {
            let request = IsLockedRequest::new(KEYS[key]).unwrap();
            backend.is_locked(request).await.map(Answer::Is)
        }
        Step::ByKey { key } => lookup(LookupRequest::by_key(KEYS[key]).unwrap()).await,
        Step::ById { id } => lookup(LookupRequest::by_lock_id(ids[id])).await,
        Step::Pass => Ok(Answer::Passed),
    };
    answer.unwrap_or_else(|error| Answer::Failed(error.code()))
}

/// Nothing runs out between two steps.
const TTL: Duration = Duration::from_secs(600);

/// Lets every lock run out, the tolerance included.
const OVER: Duration = Duration::from_millis(601_001);

/// What the embedded backend answers, on a paused clock of its own.
fn expected(steps: &[Step], ids: &[LockId]) -> Vec<Answer> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let memory = MemoryBackend::new();
        let mut answers = Vec::new();
        for step in steps {
            if matches!(step, Step::Pass) {
                tokio::time::advance(OVER).await;
            }
            answers.push(take_step(&memory, *step, ids).await);
        }
        answers
    })
}

/// Takes the steps on the emulator, on a store of its own.
async fn compare(steps: Vec<Step>, ids: Vec<LockId>, expected: Vec<Answer>) {
    // Half of the time nothing is remembered, and everything looked up.
    let url = fresh();
    let remembered = if url.ends_with(['0', '2', '4', '6', '8']) { 0 } else { 6 };
    let (clock, hand) = hand_clock();
    let options = options().with_remembered_locks(remembered).with_clock(clock);
    let firestore = backend_with(&url, options).await;
    for (number, (step, expected)) in steps.iter().zip(expected).enumerate() {
        if matches!(step, Step::Pass) {
            hand.advance(u64::try_from(OVER.as_millis()).unwrap());
        }
        let answer = take_step(&firestore, *step, &ids).await;
        // An expired lock stays in Firestore, and is forgotten by the embedded backend in a while.
        let same = match (&expected, &answer) {
            (Answer::NotHeld(_), Answer::NotHeld(_)) => true,
            (expected, answer) => *expected == *answer,
        };
        assert!(same, "step {number} of {steps:?}: {answer:?} instead of {expected:?}");
    }
}

fn lock_ids() -> Vec<LockId> {
    (0..KEYS.len() * IDS * 3).map(|_| LockId::generate().unwrap()).collect()
}

#[test]
fn random_sequences_have_the_same_answers() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases: 120, failure_persistence: None, ..Default::default() };
    let sequences = prop::collection::vec(step(), 1..40);
    TestRunner::new(config)
        .run(&sequences, |steps| {
            let ids = lock_ids();
            let expected = expected(&steps, &ids);
            runtime.block_on(compare(steps, ids, expected));
            Ok(())
        })
        .unwrap();
}

#[test]
fn sequences_with_expiry_have_the_same_answers() {
    let mut runner = TestRunner::deterministic();
    // A lock id that ran out is not used again: the embedded backend still knows it for a while.
    let part = |part: usize| {
        let steps = prop::collection::vec((step(), 0..=part), 1..8);
        steps.prop_map(move |steps| {
            let later = |(step, earlier): (Step, usize)| match step {
                Step::Acquire { key, id } => {
                    Step::Acquire { key, id: id + KEYS.len() * IDS * part }
                }
                Step::Release { id } => Step::Release { id: id + KEYS.len() * IDS * earlier },
                Step::Extend { id } => Step::Extend { id: id + KEYS.len() * IDS * earlier },
                Step::ById { id } => Step::ById { id: id + KEYS.len() * IDS * earlier },
                other => other,
            };
            steps.into_iter().map(later).collect::<Vec<_>>()
        })
    };
    let pass = || vec![Step::Pass];
    let sequences = (part(0), part(1), part(2))
        .prop_map(move |(first, second, third)| [first, pass(), second, pass(), third].concat());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for _ in 0..60 {
        let steps = sequences.new_tree(&mut runner).unwrap().current();
        let ids = lock_ids();
        let expected = expected(&steps, &ids);
        runtime.block_on(compare(steps, ids, expected));
    }
}
