//! The simulated servers give the same answers as the real ones to random sequences, under the same backends.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::TestRunner;
use syncguard::contract::{AcquireRequest, ExtendRequest, ReleaseRequest};
use syncguard::{DynBackend, ExtendResult, LockBackend as _, Timestamp};
use syncguard_simulation::{Direct, Store};
use syncguard_tests::differential::{
    Comparison, Mix, Names, Step, all_alike, compare, count_alike,
};

use crate::differential::random::ROUNDS;
use crate::differential::stores::Stores;

const KEYS: [&str; 3] = ["a", "b/c", "caf\u{e9}"];
const IDS: usize = 2 * KEYS.len();

fn mix(ttl: u64) -> Mix {
    let (keys, ids) = (KEYS.len(), IDS);
    Mix { keys, ids, ids_have_keys: true, ttls: vec![ttl], passes: Vec::new() }
}

/// Each backend on a simulated server and on a real one.
async fn pairs() -> [[DynBackend; 2]; 3] {
    let [_, redis, postgres, firestore, _] = Stores::fresh().await.backends;
    [
        [DynBackend::new(Direct::new(Store::Redis)), redis],
        [DynBackend::new(Direct::new(Store::Postgres)), postgres],
        [DynBackend::new(Direct::new(Store::Firestore)), firestore],
    ]
}

async fn compared(steps: Vec<Step>) -> Result<Comparison, String> {
    let names = Names::new(&KEYS, 3 * IDS);
    for pair in pairs().await {
        if compare(&pair, &steps, &names).await? == Comparison::TooSlow {
            return Ok(Comparison::TooSlow);
        }
    }
    Ok(Comparison::Alike)
}

#[test]
fn random_sequences_have_the_same_answers() {
    let config = ProptestConfig { cases: 20, failure_persistence: None, ..Default::default() };
    all_alike(&mut TestRunner::new(config), &mix(600_000), compared);
}

#[tokio::test]
async fn sequences_with_expiry_have_the_same_answers() {
    let mut runner = TestRunner::deterministic();
    for (sequences, ttl) in ROUNDS {
        if count_alike(&mut runner, &mix(ttl), sequences, compared).await > 0 {
            return;
        }
    }
    panic!("this machine is too busy: no sequence could be compared");
}

/// The answer to an extend with a wrong expected expiry.
#[tokio::test]
async fn expectations_are_judged_alike() {
    for pair in pairs().await {
        for backend in pair {
            let hour = std::time::Duration::from_secs(3600);
            let request = AcquireRequest::new("expected", hour).unwrap();
            let id = request.lock_id;
            let lock = backend.acquire(request).await.unwrap().acquired().unwrap();
            let extend =
                |expected| ExtendRequest::new(id, 2 * hour).unwrap().with_expected_expiry(expected);
            let wrong = Timestamp::from_millis(lock.expires_at.as_millis() - 1).unwrap();
            let expires_at = lock.expires_at;
            let answer = backend.extend(extend(wrong)).await.unwrap();
            assert_eq!(answer, ExtendResult::Mismatch { expires_at });
            assert!(backend.extend(extend(expires_at)).await.unwrap().is_extended());
            let again = backend.extend(extend(expires_at)).await.unwrap();
            assert!(matches!(again, ExtendResult::Mismatch { .. }), "{again:?}");
            assert!(backend.release(ReleaseRequest::new(id)).await.unwrap().is_released());
            assert!(!backend.extend(extend(expires_at)).await.unwrap().is_extended());
        }
    }
}
