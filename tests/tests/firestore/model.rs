//! The same sequences give the same answers on the emulator and on the memory backend.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::TestRunner;
use syncguard_firestore::DynBackend;
use syncguard_memory::MemoryBackend;
use syncguard_test_effort::either;
use syncguard_tests::differential::{
    Comparison, Mix, Names, Step, all_alike, compare, count_alike,
};

use crate::firestore::support::{backend_with, fresh, options};

const KEYS: [&str; 4] = ["a", "b/c", "é", "__a__"];
const IDS: usize = 3 * KEYS.len();

/// A lock id belongs to one key. As in TypeScript, nothing here keeps a caller from using it for two.
fn mix(ttl: u64) -> Mix {
    let (keys, ids) = (KEYS.len(), IDS);
    Mix { keys, ids, ids_have_keys: true, ttls: vec![ttl], passes: Vec::new() }
}

/// Takes the steps on both, each on a store of its own.
async fn same(steps: Vec<Step>) -> Result<Comparison, String> {
    // Half of the runs use no memory and look everything up.
    let url = fresh();
    let remembered = if url.ends_with(['0', '2', '4', '6', '8']) { 0 } else { 6 };
    let options = options().with_remembered_locks(remembered);
    let firestore = DynBackend::new(backend_with(&url, options).await);
    let memory = DynBackend::new(MemoryBackend::new());
    compare(&[memory, firestore], &steps, &Names::new(&KEYS, 3 * IDS)).await
}

#[test]
fn random_sequences_have_the_same_answers() {
    let cases = either(25, 120);
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    all_alike(&mut TestRunner::new(config), &mix(600_000), same);
}

#[tokio::test]
async fn sequences_with_expiry_have_the_same_answers() {
    // Long enough that no lock expires between two steps.
    let alike = count_alike(&mut TestRunner::deterministic(), &mix(3000), 40, same).await;
    assert!(alike >= 8, "{alike} of 40 could be compared");
}
