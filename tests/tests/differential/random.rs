//! Random sequences.

#![allow(clippy::print_stdout, reason = "the seed, to run them again")]

use proptest::prelude::ProptestConfig;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use syncguard_history::Random;
use syncguard_tests::differential::{
    Comparison, Mix, Names, Step, all_alike, compare, count_alike,
};

use crate::differential::stores::Stores;

const KEYS: [&str; 4] = ["a", "b/c", "caf\u{e9}", "fence:a"];

/// The same number for each key.
const IDS: usize = 3 * KEYS.len();

fn mix(ttls: Vec<u64>) -> Mix {
    Mix { keys: KEYS.len(), ids: IDS, ids_have_keys: true, ttls, passes: Vec::new() }
}

/// How many sequences with expiry run side by side, and their TTLs: long enough that no lock expires between two steps.
/// Sequences with an early expiry are left out, so a busy machine gets fewer at once and longer TTLs.
pub(crate) const ROUNDS: [(usize, u64); 12] = [
    (16, 2_500),
    (16, 2_500),
    (12, 4_000),
    (8, 6_000),
    (6, 9_000),
    (4, 9_000),
    (4, 9_000),
    (4, 9_000),
    (2, 9_000),
    (2, 9_000),
    (2, 9_000),
    (2, 9_000),
];

async fn compared(steps: Vec<Step>) -> Result<Comparison, String> {
    let stores = Stores::fresh().await;
    compare(&stores.backends, &steps, &Names::new(&KEYS, 3 * IDS)).await
}

fn runner(config: ProptestConfig) -> TestRunner {
    let seed = Random::seed();
    println!("SYNCGUARD_SEED={seed}");
    let mut random = Random::new(seed);
    let seed: Vec<u8> = (0..4).flat_map(|_| random.number().to_le_bytes()).collect();
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

#[test]
fn random_sequences_have_the_same_answers() {
    let config = ProptestConfig { cases: 25, failure_persistence: None, ..Default::default() };
    all_alike(&mut runner(config), &mix(vec![60_000, 600_000]), compared);
}

#[tokio::test]
async fn sequences_with_expiry_have_the_same_answers() {
    let mut runner = runner(ProptestConfig::default());
    let mut alike = 0;
    for (sequences, ttl) in ROUNDS {
        alike += count_alike(&mut runner, &mix(vec![ttl]), sequences, compared).await;
        if alike >= 12 {
            return;
        }
    }
    panic!("this machine is too busy: only {alike} sequences could be compared");
}
