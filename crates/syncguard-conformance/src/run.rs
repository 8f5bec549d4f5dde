//! Running one case.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::case::start;
use crate::context::Context;
use crate::dyn_harness::DynHarness as _;
use crate::outcome::{BoxedCase, Outcome, Stop};
use crate::{Failure, Group, Harness, Verdict, cases};

/// The longest time for a case, so that a backend that hangs fails.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs one case.
///
/// The call ends after 3 minutes at the latest, unless the backend blocks its thread. A panic of the backend or of
/// the harness is a failure too.
///
/// # Errors
///
/// A [`Failure`] if the backend breaks the rule, or if there is no case with this name.
///
/// # Cancel safety
///
/// Dropping the future gives up the case; a lock of the case may stay until it expires.
pub async fn run<H: Harness>(name: &str, harness: &H) -> Result<Verdict, Failure> {
    let Some(case) = cases().iter().find(|case| case.name == name) else {
        return Err(no_such_case(name));
    };
    if case.group == Group::Fencing && !harness.fences() {
        return Ok(Verdict::NotApplicable("the backend does not fence"));
    }
    let context = Context::new(harness);
    let Some(running) = start(case.name, &context) else {
        return Err(no_such_case(name));
    };
    match tokio::time::timeout(LIMIT, without_panic(running)).await {
        Ok(Ok(Ok(()))) => Ok(Verdict::Passed),
        Ok(Ok(Err(Stop::NotApplicable(why)))) => Ok(Verdict::NotApplicable(why)),
        Ok(Ok(Err(Stop::Failed { message, at }))) => Err(Failure::new(case, message).seen_at(at)),
        Ok(Ok(Err(Stop::TooSlow { message, at }))) => {
            Err(Failure::too_slow(case, message).seen_at(at))
        }
        Ok(Err(panic)) => Err(Failure::new(case, format!("it panicked: {panic}"))),
        Err(_) => Err(Failure::too_slow(case, format!("it was not done after {LIMIT:?}"))),
    }
}

/// The body of a test made by [`conformance_tests!`](crate::conformance_tests).
#[doc(hidden)]
pub fn __run_blocking<H, F>(name: &str, harness: impl FnOnce() -> F) -> Result<(), Failure>
where
    H: Harness,
    F: Future<Output = H>,
{
    let runtime = match runtime(H::PAUSED_CLOCK) {
        Ok(runtime) => runtime,
        Err(error) => return Err(Failure::outside(name, format!("no runtime: {error}"))),
    };
    let result = runtime.block_on(async { run(name, &harness().await).await });
    // Tasks that a case left behind must not keep the test from ending.
    runtime.shutdown_background();
    if let Verdict::NotApplicable(why) = result? {
        say(&format!("{name}: does not apply: {why}"));
    }
    Ok(())
}

/// Writes directly to standard error, so that test runners show it for passed tests as well.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Paused time needs a runtime with one thread. With real time, tasks have to run truly in parallel.
fn runtime(paused: bool) -> std::io::Result<Runtime> {
    if paused {
        Builder::new_current_thread().enable_all().start_paused(true).build()
    } else {
        Builder::new_multi_thread().worker_threads(2).enable_all().build()
    }
}

/// Runs a case; a panic inside becomes its message.
async fn without_panic(mut case: BoxedCase<'_>) -> Result<Outcome, String> {
    poll_fn(move |context| {
        // A case that panicked is not polled again, so its broken state is not seen.
        match catch_unwind(AssertUnwindSafe(|| case.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(text_of(panic.as_ref()))),
        }
    })
    .await
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "with a value that is no text".to_owned(),
    }
}

fn no_such_case(name: &str) -> Failure {
    Failure::outside(name, "there is no case with this name; cases() lists them".to_owned())
}
