//! Running cases.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::case::start;
use crate::outcome::{Outcome, Stop};
use crate::{Failure, Group, Harness, Report, Verdict, cases};

pub(crate) type BoxedCase<'b> = Pin<Box<dyn Future<Output = Outcome> + Send + 'b>>;

/// The longest a case may take: a backend that hangs fails.
const LIMIT: Duration = Duration::from_secs(30);

/// How many cases [`run_all`] runs at once: most of them wait for a lock to expire, and a store
/// takes only so many connections.
const AT_ONCE: usize = 16;

/// Runs one case.
///
/// It ends after 30 s at the latest, provided the backend does not block its thread. A panic of the
/// backend or of the harness is a failure too.
///
/// # Errors
///
/// A [`Failure`] if the backend breaks the rule, or if there is no case with this name.
///
/// # Cancel safety
///
/// Dropping the future gives the case up; a lock of its own may stay until it expires.
pub async fn run<H: Harness>(name: &str, harness: &H) -> Result<Verdict, Failure> {
    let Some(case) = cases().iter().find(|case| case.name == name) else {
        return Err(no_such_case(name));
    };
    if case.group == Group::Fencing && !Bench::<H>::FENCES {
        return Ok(Verdict::NotApplicable("the backend does not fence"));
    }
    let bench = Bench::new(harness);
    let Some(running) = start(case.name, &bench) else {
        return Err(no_such_case(name));
    };
    match tokio::time::timeout(LIMIT, without_panic(running)).await {
        Ok(Ok(Ok(()))) => Ok(Verdict::Passed),
        Ok(Ok(Err(Stop::NotApplicable(why)))) => Ok(Verdict::NotApplicable(why)),
        Ok(Ok(Err(Stop::Failed { message, at }))) => {
            Err(Failure::new(case, message, Some(at.to_string())))
        }
        Ok(Err(panic)) => Err(Failure::new(case, format!("it panicked: {panic}"), None)),
        Err(_) => Err(Failure::new(case, format!("it was not done after {LIMIT:?}"), None)),
    }
}

/// Runs all cases, 16 at once, and tells what became of each.
///
/// # Cancel safety
///
/// As [`run`].
pub async fn run_all<H: Harness>(harness: H) -> Report {
    run_all_limited(harness, AT_ONCE).await
}

/// [`run_all`] for a store, or a pool, that does not take so much at once.
///
/// Cases that wait for an expiry need their answers in time; no other depends on the limit. Zero
/// counts as one.
///
/// # Cancel safety
///
/// As [`run`].
pub async fn run_all_limited<H: Harness>(harness: H, at_once: usize) -> Report {
    let started = Instant::now();
    let harness = Arc::new(harness);
    let slots = Arc::new(Semaphore::new(at_once.max(1)));
    let mut tasks = JoinSet::new();
    for (index, case) in cases().iter().enumerate() {
        let (harness, slots) = (Arc::clone(&harness), Arc::clone(&slots));
        tasks.spawn(async move {
            // Nobody closes the semaphore; without a slot the case would just start early.
            let _slot = slots.acquire().await;
            (index, case, run(case.name, &*harness).await)
        });
    }
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(finished) = tasks.join_next().await {
        // A case catches its panics, so a task has nothing left to fail with.
        results.extend(finished);
    }
    results.sort_by_key(|(index, ..)| *index);
    let results = results.into_iter().map(|(_, case, result)| (case, result)).collect();
    Report::new(results, started.elapsed())
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
    // What a case left behind must not keep the test from ending.
    runtime.shutdown_background();
    if let Verdict::NotApplicable(why) = result? {
        say(name, why);
    }
    Ok(())
}

/// A test that proves nothing says so.
#[expect(clippy::print_stdout, reason = "a test's output is what its runner shows")]
fn say(name: &str, why: &str) {
    println!("{name}: does not apply: {why}");
}

/// Paused time needs one thread; without it, tasks are to run truly in parallel.
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
        // A case that panicked is dropped unpolled, so nobody sees a broken state.
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
