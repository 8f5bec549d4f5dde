//! The same sequences on a real server and on the embedded backend: the same answers.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use syncguard_memory::MemoryBackend;
use syncguard_redis::{DynBackend, RedisOptions};
use syncguard_tests::steps::{Comparison, Mix, Names, Step, compare};
use tokio::task::JoinSet;

use crate::support::{backend_with, fresh, shared};

const KEYS: [&str; 4] = ["a", "b:c", "é", "fence:a"];
const IDS: usize = 6;

fn mix(ttl: u64) -> Mix {
    let (keys, ids) = (KEYS.len(), IDS);
    Mix { keys, ids, ids_have_keys: false, ttls: vec![ttl], passes: Vec::new() }
}

/// Takes the steps on both, each on a store of its own.
async fn same(steps: &[Step]) -> Comparison {
    let options = RedisOptions::new().with_key_prefix(fresh("model"));
    let redis = DynBackend::new(backend_with(shared(), options).await);
    let memory = DynBackend::new(MemoryBackend::new());
    let compared = compare(&[memory, redis], steps, &Names::new(&KEYS, 3 * IDS)).await;
    compared.unwrap_or_else(|difference| panic!("{difference}"))
}

#[test]
fn five_hundred_random_sequences_have_the_same_answers() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() };
    TestRunner::new(config)
        .run(&mix(600_000).steps(), |steps| {
            prop_assert_eq!(runtime.block_on(same(&steps)), Comparison::Alike);
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn sequences_with_expiry_have_the_same_answers() {
    let mut runner = TestRunner::deterministic();
    // Long enough that nothing runs out between two steps.
    let sequences = mix(1500).with_expiry();
    let mut tasks = JoinSet::new();
    for _ in 0..150 {
        let steps = sequences.new_tree(&mut runner).unwrap().current();
        tasks.spawn(async move { same(&steps).await });
    }
    let compared = tasks.join_all().await;
    let alike = compared.iter().filter(|compared| **compared == Comparison::Alike).count();
    assert!(alike >= 30, "{alike} of {} could be compared", compared.len());
}
