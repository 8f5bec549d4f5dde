//! The same sequences give the same answers on a file and on the memory backend.

use std::time::Duration;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::TestRunner;
use syncguard_memory::MemoryBackend;
use syncguard_sqlite::{DynBackend, SqliteOptions, Synchronous};
use syncguard_test_effort::either;
use syncguard_tests::differential::{
    Comparison, Mix, Names, Step, all_alike, compare, count_alike,
};

use crate::sqlite::support::File;

const KEYS: [&str; 4] = ["a", "b:c", "é", "fence:a"];
const IDS: usize = 6;

fn mix(ttl: u64) -> Mix {
    let (keys, ids) = (KEYS.len(), IDS);
    Mix { keys, ids, ids_have_keys: false, ttls: vec![ttl], passes: Vec::new() }
}

/// Takes the steps on both, each on a store of its own.
async fn same(steps: Vec<Step>) -> Result<Comparison, String> {
    let file = File::new();
    // All of them are created at the same time.
    let options = SqliteOptions::new()
        .with_synchronous(Synchronous::Normal)
        .with_operation_timeout(Duration::from_secs(60));
    let sqlite = DynBackend::new(file.open_with(options).await);
    let memory = DynBackend::new(MemoryBackend::new());
    compare(&[memory, sqlite], &steps, &Names::new(&KEYS, 3 * IDS)).await
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
