//! Steps with the one answer that all four stores must give.

use std::time::{Duration, Instant};

use syncguard::NotHeld;
use syncguard::contract::TIME_TOLERANCE;
use syncguard_tests::differential::{Answer, Found, Names, Step};

use crate::differential::stores::{NAMES, Stores};

/// A situation.
pub(crate) struct Script {
    names: Names,
    steps: Vec<(Step, Expected)>,
}

enum Expected {
    Exactly(Answer),
    /// The lock has expired: "expired" if the store remembers it, otherwise "not found".
    RunOut,
}

/// Long enough to stay, in milliseconds.
pub(crate) const LONG: u64 = 600_000;

/// So short that only the tolerance keeps the lock live.
pub(crate) const SHORT: u64 = 1;

impl Script {
    pub(crate) fn new(keys: &[&str], ids: usize) -> Self {
        Self { names: Names::new(keys, ids), steps: Vec::new() }
    }

    fn then(mut self, step: Step, answer: Answer) -> Self {
        self.steps.push((step, Expected::Exactly(answer)));
        self
    }

    fn acquire(self, key: usize, id: usize, ttl: u64, answer: Answer) -> Self {
        self.then(Step::Acquire { key, id, ttl }, answer)
    }

    pub(crate) fn takes(self, key: usize, id: usize, ttl: u64, fence: u64) -> Self {
        self.acquire(key, id, ttl, Answer::Acquired(fence))
    }

    pub(crate) fn meets_a_lock(self, key: usize, id: usize) -> Self {
        self.acquire(key, id, LONG, Answer::Locked)
    }

    pub(crate) fn releases(self, id: usize) -> Self {
        self.then(Step::Release { id }, Answer::Released)
    }

    pub(crate) fn extends(self, id: usize, ttl: u64) -> Self {
        self.then(Step::Extend { id, ttl }, Answer::Extended)
    }

    pub(crate) fn sees(self, key: usize, locked: bool) -> Self {
        self.then(Step::IsLocked { key }, Answer::Is(locked))
    }

    /// Checks that key and lock id lead to the same lock, with this whole life in half minutes.
    pub(crate) fn finds(self, key: usize, id: usize, fence: u64, half_minutes: u64) -> Self {
        let name = syncguard::Key::new(&self.names.keys[key]).expect("a key").expose().to_owned();
        let found = Answer::Found(Some(Found { key: name, id: Some(id), fence, half_minutes }));
        self.then(Step::ByKey { key }, found.clone()).then(Step::ById { id }, found)
    }

    /// Checks that there is no lock under the key or the id.
    pub(crate) fn finds_nothing(self, key: usize, id: usize) -> Self {
        let nothing = Answer::Found(None);
        self.then(Step::ByKey { key }, nothing.clone()).then(Step::ById { id }, nothing)
    }

    /// Checks that the id is unknown for a release, an extend and a lookup.
    pub(crate) fn knows_nothing_of(self, id: usize) -> Self {
        let not_found = Answer::NotHeld(NotHeld::NotFound);
        self.then(Step::Extend { id, ttl: LONG }, not_found.clone())
            .then(Step::Release { id }, not_found)
            .then(Step::ById { id }, Answer::Found(None))
    }

    /// Checks that the lock of the id has expired.
    pub(crate) fn has_run_out(mut self, id: usize) -> Self {
        self.steps.push((Step::Extend { id, ttl: LONG }, Expected::RunOut));
        self.steps.push((Step::Release { id }, Expected::RunOut));
        self.then(Step::ById { id }, Answer::Found(None))
    }

    /// Waits until all short locks have expired, including the tolerance.
    pub(crate) fn passes(self) -> Self {
        let millis = u64::try_from(TIME_TOLERANCE.as_millis()).expect("a second") + SHORT + 50;
        self.then(Step::Pass { millis }, Answer::Passed)
    }

    /// Runs the script on all stores.
    pub(crate) async fn play(self) {
        // On a busy machine a short lock may expire too early, and the run proves nothing. Then short locks live longer.
        for longer in [0, 0, 0, 0, 500, 1_000, 2_000, 4_000, 8_000, 8_000] {
            if self.attempt(&Stores::fresh().await, longer).await {
                return;
            }
        }
        panic!("this machine is too busy for locks of nine seconds");
    }

    /// Returns true if the script ran in time.
    async fn attempt(&self, stores: &Stores, longer: u64) -> bool {
        let mut run_out_at: Option<Instant> = None;
        for (number, (step, expected)) in self.steps.iter().enumerate() {
            let mut step = *step;
            match &mut step {
                Step::Pass { millis } => {
                    tokio::time::sleep(Duration::from_millis(*millis + longer)).await;
                    run_out_at = None;
                    continue;
                }
                Step::Acquire { ttl, .. } | Step::Extend { ttl, .. } if *ttl == SHORT => {
                    *ttl += longer;
                    let lives = TIME_TOLERANCE + Duration::from_millis(longer);
                    run_out_at.get_or_insert(Instant::now() + lives);
                }
                _ => {}
            }
            let answers = stores.all_take(step, &self.names).await;
            if run_out_at.is_some_and(|at| at <= Instant::now()) {
                return false;
            }
            for (name, answer) in NAMES.iter().zip(&answers) {
                let right = match expected {
                    Expected::Exactly(expected) => answer == expected,
                    Expected::RunOut => matches!(answer, Answer::NotHeld(_)),
                };
                assert!(right, "{name}, step {number}, {step:?}: {answers:#?}");
            }
        }
        true
    }
}
