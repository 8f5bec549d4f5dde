//! Random sequences, on the server and on the embedded backend: the answers must be the same.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use syncguard_memory::MemoryBackend;
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{
    AcquireRequest, AcquireResult, ExtendRequest, ExtendResult, IsLockedRequest, LockBackend,
    LockId, LookupRequest, NotHeld, PostgresBackend, ReleaseRequest, ReleaseResult,
};
use tokio::runtime::{Builder, Runtime};

use crate::support::{Tables, connect, shared};

const KEYS: [&str; 3] = ["one", "two", "caf\u{e9}"];
const IDS: usize = 5;

#[derive(Clone, Debug)]
enum Step {
    Acquire { key: usize, id: usize, ttl_s: u64 },
    Release { id: usize },
    Extend { id: usize, ttl_s: u64 },
    IsLocked { key: usize },
    LookupKey { key: usize },
    LookupId { id: usize },
    Pass { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (key, id) = (0..KEYS.len(), 0..IDS);
    // Far enough apart that the time the steps take on the server does not matter.
    let ttl_s = prop_oneof![Just(60_u64), Just(600), Just(6000)];
    prop_oneof![
        5 => (key.clone(), id.clone(), ttl_s.clone())
            .prop_map(|(key, id, ttl_s)| Step::Acquire { key, id, ttl_s }),
        3 => id.clone().prop_map(|id| Step::Release { id }),
        2 => (id.clone(), ttl_s).prop_map(|(id, ttl_s)| Step::Extend { id, ttl_s }),
        1 => key.clone().prop_map(|key| Step::IsLocked { key }),
        1 => key.prop_map(|key| Step::LookupKey { key }),
        1 => id.prop_map(|id| Step::LookupId { id }),
        2 => prop_oneof![Just(30_u64), Just(300), Just(3000)]
            .prop_map(|seconds| Step::Pass { seconds }),
    ]
}

/// What a step answered, without what differs between two clocks.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Acquired(u64),
    Locked,
    Released,
    Extended,
    NotHeld(NotHeld),
    Is(bool),
    Found(Option<(String, LockId, u64, u64)>),
    Refused(&'static str),
    Nothing,
}

async fn run<B: LockBackend<Fence = syncguard_postgres::Fence>>(
    backend: &B,
    ids: &[LockId],
    step: &Step,
) -> Seen {
    let answer = async {
        Ok::<_, syncguard_postgres::LockError>(match *step {
            Step::Acquire { key, id, ttl_s } => {
                let request = AcquireRequest::new(KEYS[key], Duration::from_secs(ttl_s))?;
                match backend.acquire(request.with_lock_id(ids[id])).await? {
                    AcquireResult::Acquired(lock) => Seen::Acquired(lock.fence.get()),
                    AcquireResult::Locked => Seen::Locked,
                }
            }
            Step::Release { id } => match backend.release(ReleaseRequest::new(ids[id])).await? {
                ReleaseResult::Released => Seen::Released,
                ReleaseResult::NotHeld(why) => Seen::NotHeld(why),
            },
            Step::Extend { id, ttl_s } => {
                let request = ExtendRequest::new(ids[id], Duration::from_secs(ttl_s))?;
                match backend.extend(request).await? {
                    ExtendResult::Extended { .. } => Seen::Extended,
                    ExtendResult::NotHeld(why) => Seen::NotHeld(why),
                }
            }
            Step::IsLocked { key } => {
                Seen::Is(backend.is_locked(IsLockedRequest::new(KEYS[key])?).await?)
            }
            Step::LookupKey { key } => find(backend, LookupRequest::by_key(KEYS[key])?).await?,
            Step::LookupId { id } => find(backend, LookupRequest::by_lock_id(ids[id])).await?,
            Step::Pass { .. } => Seen::Nothing,
        })
    };
    answer.await.unwrap_or_else(|error| Seen::Refused(error.code().as_str()))
}

async fn find<B: LockBackend<Fence = syncguard_postgres::Fence>>(
    backend: &B,
    request: LookupRequest,
) -> Result<Seen, syncguard_postgres::LockError> {
    let found = backend.lookup(request).await?.map(|info| {
        let found = info.expose();
        // To the minute: an extend counts from now, and the steps take their time.
        let lives = found.info.expires_at.as_millis() - found.info.acquired_at.as_millis();
        let fence = found.info.fence.get();
        (found.key.expose().to_owned(), found.lock_id, fence, (lives + 10_000) / 30_000)
    });
    Ok(Seen::Found(found))
}

/// The model's time stands still unless a step moves it.
struct Model {
    runtime: Runtime,
    backend: MemoryBackend,
}

impl Model {
    fn new() -> Self {
        let runtime =
            Builder::new_current_thread().enable_all().start_paused(true).build().expect("tokio");
        let backend = runtime.block_on(async { MemoryBackend::new() });
        Self { runtime, backend }
    }

    fn run(&self, ids: &[LockId], step: &Step) -> Seen {
        self.runtime.block_on(async {
            if let Step::Pass { seconds } = step {
                tokio::time::advance(Duration::from_secs(*seconds)).await;
            }
            run(&self.backend, ids, step).await
        })
    }
}

struct Real {
    backend: PostgresBackend,
    admin: Client,
    tables: Tables,
}

impl Real {
    async fn run(&self, ids: &[LockId], step: &Step) -> Seen {
        if let Step::Pass { seconds } = step {
            let millis = i64::try_from(seconds * 1000).expect("a time");
            for key in KEYS {
                self.tables.age(&self.admin, key, millis).await;
            }
        }
        run(&self.backend, ids, step).await
    }

    async fn clear(&self) {
        let sql = format!("DELETE FROM {}; DELETE FROM {}", self.tables.locks, self.tables.fences);
        self.admin.batch_execute(&sql).await.expect("empty tables");
    }
}

#[test]
fn the_server_answers_as_the_model_does() {
    let runtime =
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("tokio");
    let tables = Tables::fresh();
    let real = runtime.block_on(async {
        let admin = connect(&shared().url()).await;
        Real { backend: tables.backend(1).await, admin, tables }
    });
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let sequences = prop::collection::vec(step(), 1..40);
    TestRunner::new(config)
        .run(&sequences, |steps| {
            let model = Model::new();
            let ids: Vec<LockId> =
                (0..IDS).map(|_| LockId::generate().expect("randomness")).collect();
            runtime.block_on(real.clear());
            for step in &steps {
                let expected = model.run(&ids, step);
                let seen = runtime.block_on(real.run(&ids, step));
                // The model forgets an expired lock after a while, the table keeps it.
                let forgotten = (&expected, &seen)
                    == (&Seen::NotHeld(NotHeld::NotFound), &Seen::NotHeld(NotHeld::Expired));
                // And so a lock id is taken for longer.
                let remembered = matches!(expected, Seen::Acquired(_))
                    && seen == Seen::Refused("InvalidArgument");
                if remembered {
                    return Ok(());
                }
                prop_assert!(
                    forgotten || expected == seen,
                    "{step:?}: {seen:?} instead of {expected:?}"
                );
            }
            Ok(())
        })
        .unwrap();
}
