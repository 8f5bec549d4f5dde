//! The same sequences on the emulator and on the embedded backend: the same answers.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use syncguard_firestore::DynBackend;
use syncguard_memory::MemoryBackend;
use syncguard_tests::steps::{Comparison, Mix, Names, Step, compare};
use tokio::task::JoinSet;

use crate::support::{backend_with, fresh, options};

const KEYS: [&str; 4] = ["a", "b/c", "é", "__a__"];
const IDS: usize = 3 * KEYS.len();

/// A lock id belongs to one key: here nothing keeps a caller from using it for two, as nothing does
/// in TypeScript.
fn mix(ttl: u64) -> Mix {
    let (keys, ids) = (KEYS.len(), IDS);
    Mix { keys, ids, ids_have_keys: true, ttls: vec![ttl], passes: Vec::new() }
}

/// Takes the steps on both, each on a store of its own.
async fn same(steps: &[Step]) -> Comparison {
    // Half of the time nothing is remembered, and everything looked up.
    let url = fresh();
    let remembered = if url.ends_with(['0', '2', '4', '6', '8']) { 0 } else { 6 };
    let options = options().with_remembered_locks(remembered);
    let firestore = DynBackend::new(backend_with(&url, options).await);
    let memory = DynBackend::new(MemoryBackend::new());
    let compared = compare(&[memory, firestore], steps, &Names::new(&KEYS, 3 * IDS)).await;
    compared.unwrap_or_else(|difference| panic!("{difference}"))
}

#[test]
fn random_sequences_have_the_same_answers() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases: 120, failure_persistence: None, ..Default::default() };
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
    let sequences = mix(3000).with_expiry();
    let mut tasks = JoinSet::new();
    for _ in 0..40 {
        let steps = sequences.new_tree(&mut runner).unwrap().current();
        tasks.spawn(async move { same(&steps).await });
    }
    let compared = tasks.join_all().await;
    let alike = compared.iter().filter(|compared| **compared == Comparison::Alike).count();
    assert!(alike >= 8, "{alike} of {} could be compared", compared.len());
}
