//! Running many cases.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::run::{run, say};
use crate::{Case, Harness, Report, cases};

/// The default of [`Suite::at_once`]. Most cases wait for a lock to expire, and a store accepts only a limited number
/// of connections.
const AT_ONCE: usize = 16;

/// The cases to run, and how many of them at the same time. Default: all cases, 16 at once.
///
/// ```
/// use syncguard_conformance::{Group, Suite};
///
/// let ownership = Suite::new().only(|case| case.group == Group::Ownership).at_once(4);
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing runs until `run` is called"]
pub struct Suite {
    cases: Vec<&'static Case>,
    at_once: usize,
}

impl Suite {
    /// All cases.
    pub fn new() -> Self {
        Self { cases: cases().iter().collect(), at_once: AT_ONCE }
    }

    /// Keeps only the cases for which the closure returns `true`. A second call reduces the selection further.
    pub fn only(mut self, choice: impl Fn(&Case) -> bool) -> Self {
        self.cases.retain(|case| choice(case));
        self
    }

    /// Runs at most this many cases at the same time; zero counts as one.
    ///
    /// Use fewer for a store or a pool with a low limit. No rule depends on the number, but cases that wait for an
    /// expiry need their answers in time.
    pub fn at_once(mut self, count: usize) -> Self {
        self.at_once = count.max(1);
        self
    }

    /// Runs the cases, and returns the result of each.
    ///
    /// Cases that were [too slow](crate::Failure::is_too_slow) run once more at the end, each alone, and the second
    /// result counts. The second run is written to standard error, where no test runner hides it, and stands in the
    /// report. Other failures are not tried again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the running cases; their locks may stay until they expire.
    pub async fn run<H: Harness>(self, harness: H) -> Report {
        let started = Instant::now();
        let harness = Arc::new(harness);
        let slots = Arc::new(Semaphore::new(self.at_once));
        let mut tasks = JoinSet::new();
        for (index, case) in self.cases.into_iter().enumerate() {
            let (harness, slots) = (Arc::clone(&harness), Arc::clone(&slots));
            tasks.spawn(async move {
                // The semaphore is never closed. On an error the case would just start early.
                let _slot = slots.acquire().await;
                (index, case, run(case.name, &*harness).await)
            });
        }
        let mut results = Vec::with_capacity(tasks.len());
        while let Some(finished) = tasks.join_next().await {
            // A case catches its panics, so its task cannot fail.
            results.extend(finished);
        }
        results.sort_by_key(|(index, ..)| *index);

        let mut repeated = Vec::new();
        for (_, case, result) in &mut results {
            if let Err(failure) = result
                && failure.is_too_slow
            {
                say(&format!("runs once more, alone, as it was too slow: {failure}"));
                let first = std::mem::replace(result, run(case.name, &*harness).await);
                repeated.extend(first.err());
            }
        }
        let results = results.into_iter().map(|(_, case, result)| (case, result)).collect();
        Report::new(results, repeated, started.elapsed())
    }
}

impl Default for Suite {
    fn default() -> Self {
        Self::new()
    }
}
