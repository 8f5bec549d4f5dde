//! The cases that a suite runs, and those that it runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use syncguard_conformance::{Group, Harness, Suite, Verdict, cases, run};
use syncguard_memory::{Fence, Key, MemoryBackend};

const HANGS: &str = "acquire_takes_a_free_key";
const FAILS: &str = "large_fences_keep_every_digit";

#[tokio::test(start_paused = true)]
async fn it_runs_what_is_chosen() {
    let lifecycle = Suite::new().only(|case| case.group == Group::Lifecycle);
    let all = lifecycle.clone().run(Shaky::default()).await;
    let one_less = lifecycle.only(|case| case.name != HANGS).run(Shaky::default()).await;
    assert!(all.is_success() && one_less.is_success(), "{all}{one_less}");

    let of_group = || cases().iter().filter(|case| case.group == Group::Lifecycle);
    assert!(all.results.iter().map(|(case, _)| *case).eq(of_group()));
    let rest = of_group().filter(|case| case.name != HANGS);
    assert!(one_less.results.iter().map(|(case, _)| *case).eq(rest));
}

#[tokio::test(start_paused = true)]
async fn a_choice_of_nothing_is_no_success() {
    let report = Suite::new().only(|case| case.name == "a_name_with_a_typo");
    assert!(!report.run(Shaky::default()).await.is_success());
}

#[tokio::test(start_paused = true)]
async fn what_is_too_slow_runs_once_more_and_the_report_says_so() {
    for (hangs, is_success) in [(1, true), (usize::MAX, false)] {
        let shaky = Shaky { hangs, ..Shaky::default() };
        let connected = Arc::clone(&shaky.connected);
        let report = Suite::new().only(|case| case.name == HANGS).run(shaky).await;
        assert_eq!(report.is_success(), is_success, "{report}");
        assert_eq!(connected.load(Ordering::Relaxed), 2);
        let repeated: Vec<_> = report.repeated.iter().collect();
        assert_eq!(repeated.len(), 1, "{repeated:?}");
        assert!(repeated[0].is_too_slow && repeated[0].case == HANGS, "{repeated:?}");
        assert!(report.to_string().contains("ran once more"), "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_rule_fails_at_once() {
    let shaky = Shaky { fails: true, ..Shaky::default() };
    let counted = Arc::clone(&shaky.counted);
    let report = Suite::new().only(|case| case.name == FAILS).run(shaky).await;
    assert_eq!(report.failures().filter(|failure| !failure.is_too_slow).count(), 1, "{report}");
    assert_eq!(report.repeated.len(), 0, "{report}");
    assert_eq!(counted.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_case_alone_runs_once() {
    let shaky = Shaky { hangs: 1, ..Shaky::default() };
    let failure = run(HANGS, &shaky).await.expect_err("a hanging case");
    assert!(failure.is_too_slow, "{failure}");
    assert_eq!(run(HANGS, &shaky).await, Ok(Verdict::Passed));
}

/// A store that accepts connections only after some attempts, and whose counters may be unreachable.
#[derive(Default)]
struct Shaky {
    backend: MemoryBackend,
    /// How many connections fail.
    hangs: usize,
    fails: bool,
    connected: Arc<AtomicUsize>,
    counted: Arc<AtomicUsize>,
}

impl Harness for Shaky {
    type Backend = MemoryBackend;

    const PAUSED_CLOCK: bool = true;

    async fn connect(&self) -> MemoryBackend {
        if self.connected.fetch_add(1, Ordering::Relaxed) < self.hangs {
            std::future::pending::<()>().await;
        }
        self.backend.clone()
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.counted.fetch_add(1, Ordering::Relaxed);
        assert!(!self.fails, "there is no way to the counters");
        self.backend.set_fence_counter(key, last);
    }
}
