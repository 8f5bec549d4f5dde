//! Compares the memory backend with an independent model of the contract.
//!
//! The test runs random sequences of operations and steps in time. It compares every answer, including
//! times and fences.

use std::time::Duration;

use proptest::prelude::*;
use syncguard_memory::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_memory::{ExtendResult, LockBackend, LockId, MemoryBackend, NotHeld, ReleaseResult};

const KEYS: usize = 3;
const IDS: usize = 8;

#[derive(Clone, Debug)]
enum Step {
    /// `id` is the number of a lock id. Each lock id belongs to one key, so ids are sometimes reused.
    Acquire {
        key: usize,
        id: usize,
        ttl: u64,
    },
    Release {
        id: usize,
    },
    Extend {
        id: usize,
        ttl: u64,
    },
    IsLocked {
        key: usize,
    },
    LookupKey {
        key: usize,
    },
    LookupId {
        id: usize,
    },
    Wait {
        millis: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let ttl = prop_oneof![1..4_u64, 900..1_100_u64, 1_u64..5_000];
    let wait = prop_oneof![0..3_u64, Just(999), Just(1_000), Just(1_001), 0..4_000_u64];
    prop_oneof![
        4 => (0..IDS, ttl.clone()).prop_map(|(id, ttl)| Step::Acquire { key: id % KEYS, id, ttl }),
        2 => (0..IDS).prop_map(|id| Step::Release { id }),
        2 => (0..IDS, ttl).prop_map(|(id, ttl)| Step::Extend { id, ttl }),
        1 => (0..KEYS).prop_map(|key| Step::IsLocked { key }),
        1 => (0..KEYS).prop_map(|key| Step::LookupKey { key }),
        1 => (0..IDS).prop_map(|id| Step::LookupId { id }),
        3 => wait.prop_map(|millis| Step::Wait { millis }),
    ]
}

/// The answer of an operation, with times counted from the start of the test.
#[derive(Debug, PartialEq)]
enum Answer {
    Acquired { expires_at: u64, fence: u64 },
    Locked,
    Done,
    Extended { expires_at: u64 },
    NotHeld(NotHeld),
    IsLocked(bool),
    Found { key: usize, id: usize, acquired_at: u64, expires_at: u64, fence: u64 },
    Nothing,
}

/// The contract in its plainest form: a list of all acquisitions.
#[derive(Default)]
struct Model {
    now: u64,
    history: Vec<Acquisition>,
}

#[derive(Clone)]
struct Acquisition {
    key: usize,
    id: usize,
    acquired_at: u64,
    expires_at: u64,
    fence: u64,
    /// Released, or replaced by a later acquisition of its key.
    over: bool,
}

impl Model {
    fn is_live(&self, lock: &Acquisition) -> bool {
        !lock.over && self.now < lock.expires_at + 1_000
    }

    fn live(&mut self, which: impl Fn(&Acquisition) -> bool) -> Option<usize> {
        self.history.iter().position(|lock| which(lock) && self.is_live(lock))
    }

    fn not_held(&self, id: usize) -> Answer {
        // The store keeps an expired record for two seconds after the lock has stopped being live.
        let remembered = self
            .history
            .iter()
            .any(|lock| lock.id == id && !lock.over && self.now < lock.expires_at + 3_000);
        Answer::NotHeld(if remembered { NotHeld::Expired } else { NotHeld::NotFound })
    }

    fn apply(&mut self, step: &Step) -> Answer {
        match *step {
            Step::Acquire { key, id, ttl } => match self.live(|lock| lock.key == key) {
                Some(held) if self.history[held].id == id => {
                    let Acquisition { expires_at, fence, .. } = self.history[held];
                    Answer::Acquired { expires_at, fence }
                }
                Some(_) => Answer::Locked,
                None => {
                    let of_key = self.history.iter_mut().filter(|lock| lock.key == key);
                    let fence = of_key.map(|lock| lock.over = true).count() as u64 + 1;
                    let expires_at = self.now + ttl;
                    let acquired_at = self.now;
                    self.history.push(Acquisition {
                        key,
                        id,
                        acquired_at,
                        expires_at,
                        fence,
                        over: false,
                    });
                    Answer::Acquired { expires_at, fence }
                }
            },
            Step::Release { id } => match self.live(|lock| lock.id == id) {
                Some(held) => {
                    self.history[held].over = true;
                    Answer::Done
                }
                None => self.not_held(id),
            },
            Step::Extend { id, ttl } => match self.live(|lock| lock.id == id) {
                Some(held) => {
                    // Every extend changes the expiry.
                    let is_same = self.history[held].expires_at == self.now + ttl;
                    let expires_at = self.now + ttl + u64::from(is_same);
                    self.history[held].expires_at = expires_at;
                    Answer::Extended { expires_at }
                }
                None => self.not_held(id),
            },
            Step::IsLocked { key } => Answer::IsLocked(self.live(|lock| lock.key == key).is_some()),
            Step::LookupKey { key } => self.found(|lock| lock.key == key),
            Step::LookupId { id } => self.found(|lock| lock.id == id),
            Step::Wait { millis } => {
                self.now += millis;
                Answer::Done
            }
        }
    }

    fn found(&mut self, which: impl Fn(&Acquisition) -> bool) -> Answer {
        match self.live(which).map(|found| self.history[found].clone()) {
            Some(Acquisition { key, id, acquired_at, expires_at, fence, .. }) => {
                Answer::Found { key, id, acquired_at, expires_at, fence }
            }
            None => Answer::Nothing,
        }
    }
}

/// The real backend, with times relative to the start of the model.
struct Subject {
    backend: MemoryBackend,
    started_at: u64,
}

impl Subject {
    async fn new() -> Self {
        let backend = MemoryBackend::new();
        let probe = AcquireRequest::new("probe", Duration::from_millis(1)).unwrap();
        let expires_at = backend.acquire(probe).await.unwrap().acquired().unwrap().expires_at;
        Self { backend, started_at: expires_at.as_millis() - 1 }
    }

    async fn apply(&self, step: &Step) -> Answer {
        let since = |time: syncguard_memory::Timestamp| time.as_millis() - self.started_at;
        match *step {
            Step::Acquire { key, id, ttl } => {
                let request =
                    AcquireRequest::new(key_name(key), Duration::from_millis(ttl)).unwrap();
                match self.backend.acquire(request.with_lock_id(lock_id(id))).await.unwrap() {
                    AcquireResult::Acquired(lock) => {
                        assert_eq!(lock.lock_id, lock_id(id));
                        Answer::Acquired {
                            expires_at: since(lock.expires_at),
                            fence: lock.fence.get(),
                        }
                    }
                    _ => Answer::Locked,
                }
            }
            Step::Release { id } => {
                match self.backend.release(ReleaseRequest::new(lock_id(id))).await.unwrap() {
                    ReleaseResult::NotHeld(why) => Answer::NotHeld(why),
                    _ => Answer::Done,
                }
            }
            Step::Extend { id, ttl } => {
                let request = ExtendRequest::new(lock_id(id), Duration::from_millis(ttl)).unwrap();
                match self.backend.extend(request).await.unwrap() {
                    ExtendResult::Extended { expires_at } => {
                        Answer::Extended { expires_at: since(expires_at) }
                    }
                    ExtendResult::NotHeld(why) => Answer::NotHeld(why),
                    other => panic!("no expiry was expected: {other:?}"),
                }
            }
            Step::IsLocked { key } => {
                let request = IsLockedRequest::new(key_name(key)).unwrap();
                Answer::IsLocked(self.backend.is_locked(request).await.unwrap())
            }
            Step::LookupKey { key } => {
                self.found(LookupRequest::by_key(key_name(key)).unwrap()).await
            }
            Step::LookupId { id } => self.found(LookupRequest::by_lock_id(lock_id(id))).await,
            Step::Wait { millis } => {
                tokio::time::advance(Duration::from_millis(millis)).await;
                Answer::Done
            }
        }
    }

    async fn found(&self, request: LookupRequest) -> Answer {
        match self.backend.lookup(request).await.unwrap() {
            None => Answer::Nothing,
            Some(info) => {
                let raw = info.expose();
                Answer::Found {
                    key: (0..KEYS).find(|key| key_name(*key) == raw.key.expose()).unwrap(),
                    id: (0..IDS).find(|id| lock_id(*id) == raw.lock_id).unwrap(),
                    acquired_at: raw.info.acquired_at.as_millis() - self.started_at,
                    expires_at: raw.info.expires_at.as_millis() - self.started_at,
                    fence: raw.info.fence.get(),
                }
            }
        }
    }
}

fn key_name(key: usize) -> String {
    format!("key-{key}")
}

fn lock_id(id: usize) -> LockId {
    LockId::new(format!("{id:022}")).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn every_answer_is_the_models(steps in proptest::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        runtime.block_on(async {
            let mut model = Model::default();
            let subject = Subject::new().await;
            for (n, step) in steps.iter().enumerate() {
                prop_assert_eq!(subject.apply(step).await, model.apply(step), "step {}: {:?}", n, step);
            }
            Ok(())
        })?;
    }
}

/// Locks that are never released are deleted some time after they expire.
#[tokio::test(start_paused = true)]
async fn expired_locks_do_not_pile_up() {
    let backend = MemoryBackend::new();
    for n in 0..50_000_u32 {
        let request = AcquireRequest::new(format!("key-{n}"), Duration::from_millis(1)).unwrap();
        assert!(backend.acquire(request).await.unwrap().is_acquired());
        if n % 10 == 0 {
            tokio::time::advance(Duration::from_millis(40)).await;
        }
    }
    // A lock is kept for 3 s after its expiry, which is 750 locks here. At most twice as many are stored.
    assert!(backend.stored_locks() <= 1_600, "{}", backend.stored_locks());
}
