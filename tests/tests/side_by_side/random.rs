//! Random sequences.

#![allow(clippy::print_stdout, reason = "the seed, to run them again")]

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use syncguard_tests::random::Random;
use syncguard_tests::steps::{Comparison, Mix, Names, Step, compare};
use tokio::task::JoinSet;

use crate::stores::Stores;

const KEYS: [&str; 4] = ["a", "b/c", "caf\u{e9}", "fence:a"];

/// As many for each key.
const IDS: usize = 3 * KEYS.len();

fn mix(ttls: Vec<u64>) -> Mix {
    Mix { keys: KEYS.len(), ids: IDS, ids_have_keys: true, ttls, passes: Vec::new() }
}

async fn compared(steps: &[Step]) -> Result<Comparison, String> {
    let stores = Stores::fresh().await;
    compare(&stores.backends, steps, &Names::new(&KEYS, 3 * IDS)).await
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
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases: 25, failure_persistence: None, ..Default::default() };
    let steps = mix(vec![60_000, 600_000]).steps();
    runner(config)
        .run(&steps, |steps| {
            let compared = runtime.block_on(compared(&steps));
            prop_assert_eq!(compared, Ok(Comparison::Alike));
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn sequences_with_expiry_have_the_same_answers() {
    let mut runner = runner(ProptestConfig::default());
    // Long enough that nothing runs out between two steps; what does is left out.
    let sequences = mix(vec![2500]).with_expiry();
    let mut alike = 0;
    for _ in 0..8 {
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let steps = sequences.new_tree(&mut runner).unwrap().current();
            tasks.spawn(async move { compared(&steps).await });
        }
        let results: Result<Vec<_>, _> = tasks.join_all().await.into_iter().collect();
        let results = results.unwrap_or_else(|difference| panic!("{difference}"));
        alike += results.iter().filter(|result| **result == Comparison::Alike).count();
        if alike >= 12 {
            return;
        }
    }
    panic!("this machine is too busy: only {alike} sequences could be compared");
}
