//! The same sequences give the same answers on a real server and on the memory backend.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::TestRunner;
use syncguard_memory::MemoryBackend;
use syncguard_redis::DynBackend;
use syncguard_test_effort::either;
use syncguard_tests::differential::{
    Comparison, Mix, Names, Step, all_alike, compare, count_alike,
};

use crate::redis::support::{backend_with, fresh, patient, shared};

const KEYS: [&str; 4] = ["a", "b:c", "é", "fence:a"];
const IDS: usize = 6;

fn mix(ttl: u64) -> Mix {
    let (keys, ids) = (KEYS.len(), IDS);
    Mix { keys, ids, ids_have_keys: false, ttls: vec![ttl], passes: Vec::new() }
}

/// Takes the steps on both, each on a store of its own.
async fn same(steps: Vec<Step>) -> Result<Comparison, String> {
    let options = patient().with_key_prefix(fresh("model"));
    let redis = DynBackend::new(backend_with(shared(), options).await);
    let memory = DynBackend::new(MemoryBackend::new());
    compare(&[memory, redis], &steps, &Names::new(&KEYS, 3 * IDS)).await
}

#[test]
fn random_sequences_have_the_same_answers() {
    let cases = either(60, 500);
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    all_alike(&mut TestRunner::new(config), &mix(600_000), same);
}

#[tokio::test]
async fn sequences_with_expiry_have_the_same_answers() {
    // Long enough that no lock expires between two steps.
    let alike =
        count_alike(&mut TestRunner::deterministic(), &mix(1500), either(50, 150), same).await;
    assert!(alike >= either(10, 30), "{alike} could be compared");
}
