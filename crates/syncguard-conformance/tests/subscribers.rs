//! Tests that install a `tracing` subscriber of their own, with and without the suite's layer.

use syncguard_conformance::{LogWatch, Verdict, run};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

use crate::memory::Memory;

const CASES_ABOUT_LOGS: [&str; 2] =
    ["logs_hide_key_and_lock_id", "a_fence_above_the_warning_level_is_logged"];

#[tokio::test(start_paused = true)]
async fn without_the_layer_the_cases_about_logs_do_not_apply() {
    let _guard = tracing::subscriber::set_default(Registry::default());
    for case in CASES_ABOUT_LOGS {
        let verdict = run(case, &Memory::<true>::default()).await;
        assert!(matches!(verdict, Ok(Verdict::NotApplicable(_))), "{case}: {verdict:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_the_layer_they_do() {
    let _guard = tracing::subscriber::set_default(Registry::default().with(LogWatch));
    for case in CASES_ABOUT_LOGS {
        assert_eq!(run(case, &Memory::<true>::default()).await, Ok(Verdict::Passed), "{case}");
    }
}
