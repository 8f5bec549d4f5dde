//! `syncguard run --tick`: a command for each tick of a schedule.

use std::cell::Cell;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::time::Duration;

use syncguard::recipes::{Tick, TickOutcome, Ticks};
use syncguard::{CancellationToken, DynBackend, LockConfig, LockError, ReleaseResult};
use tokio::sync::{mpsc, oneshot};

use super::acquire::{connect, finish_releases};
use super::guard::unless_lost;
use super::options::Options;
use super::program::Program;
use super::request::LockRequest;
use super::ride_out::RideOut;
use super::runner::Runner;
use super::supervise::Ended;
use super::tick_options::{TickOptions, schedule};
use super::wait_display::WaitDisplay;
use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::signals::Signals;
use crate::store::Store;
use crate::time::{human, since, utc};

/// A tick that has begun. It ends when the sender is dropped.
struct Begun {
    tick: Tick,
    _ended: oneshot::Sender<()>,
}

/// How the recipe has ended, or why it was left.
enum Left<T> {
    Done(T),
    /// A signal asked this program to end.
    Signal(Status),
    Begun(Begun),
}

pub(super) async fn run(
    expression: &str,
    options: &Options,
    request: &LockRequest,
    program: &Program,
    store: &Store,
    signals: &mut Signals,
    output: Output,
) -> Result<Status, Failure> {
    let given = &options.ticks;
    let schedule = schedule(expression, &given.tz)?;
    let backend = match connect(store, &options.key, request, signals, output).await? {
        ControlFlow::Continue(backend) => backend,
        ControlFlow::Break(_) if given.is_loop => return Ok(Status::SUCCESS),
        ControlFlow::Break(status) => return Ok(status),
    };
    let shutdown = CancellationToken::new();
    let config = LockConfig::new(options.key.as_str()).with_ttl(options.ttl);
    let mut ticks = Ticks::new(backend.clone(), config, schedule)
        .with_attempts(given.attempts)
        .with_retry_after(given.retry_after)
        .with_missed(given.missed.into())
        .with_shutdown(shutdown.clone());
    if let Some(lateness) = given.max_lateness {
        ticks = ticks.with_max_lateness(lateness);
    }
    let runner = Runner { options, program, store, output };
    let ended = if given.is_loop {
        run_each(ticks, shutdown, &runner, signals).await
    } else {
        run_one((&backend, &ticks, request), shutdown, &runner, signals).await
    };
    finish_releases(&backend).await;
    ended
}

/// Runs the command for the tick that is due now.
async fn run_one(
    (backend, ticks, request): (&DynBackend, &Ticks<DynBackend>, &LockRequest),
    shutdown: CancellationToken,
    runner: &Runner<'_>,
    signals: &mut Signals,
) -> Result<Status, Failure> {
    let (begin, mut begun) = mpsc::channel(1);
    let in_doubt = Cell::new(false);
    // Nothing fails after the command was begun.
    let ride_out = RideOut::new(request.ride_out, runner.output);
    let mut tried = pin!(ride_out.over(async || {
        // A request without an answer may have been granted.
        finish_releases(backend).await;
        let tried = ticks.try_once(async |tick| announce(tick, &begin).await).await;
        in_doubt.set(in_doubt.get() | tried.as_ref().is_err_and(LockError::is_outcome_unknown));
        Ok(tried?)
    }));
    let outcome = match next(tried.as_mut(), &mut begun, signals).await {
        Left::Done(outcome) => outcome?,
        Left::Signal(status) => return Ok(status),
        Left::Begun(begun) => {
            let tick = begun.tick.clone();
            let ended = run_tick(runner, begun, signals).await;
            let released = released(tried.as_mut(), &tick, &shutdown, signals).await;
            let is_marked = released.as_ref().is_ok_and(|released| released.is_released());
            let status = runner.status(&ended?, released)?;
            let has_more = tick.attempt < runner.options.ticks.attempts;
            if status == Status::SUCCESS && !is_marked {
                let follows = if has_more { ", so another attempt may follow" } else { "" };
                runner.output.error(format!("the tick could not be marked as done{follows}"));
            } else if has_more && status != Status::SUCCESS {
                runner.output.note(next_attempt(&tick, &runner.options.ticks));
            }
            return Ok(status);
        }
    };
    let waiting = &runner.options.waiting;
    let (status, message) = match outcome {
        TickOutcome::Ran(()) => return Ok(Status::INTERNAL),
        TickOutcome::Taken if in_doubt.get() => {
            let says =
                "the tick may be lost: a request for it had no answer, and it counts as started";
            return Err(Failure::new(Status::UNAVAILABLE, says));
        }
        TickOutcome::Taken => {
            let says = "the tick was run before, by this or another process";
            (waiting.conflict_status_or(Status::TAKEN), says.to_owned())
        }
        TickOutcome::Busy(_) => {
            let says = "another process holds the lock: an earlier tick or attempt still runs, or the pause after it lasts";
            let holder = WaitDisplay::new(backend, request, runner.output).holder_now().await;
            (waiting.conflict_status(), format!("{says}{holder}"))
        }
        TickOutcome::TooEarly { wait } => {
            let says = "by the store's clock: this machine's clock is ahead";
            (Status::EARLY, format!("the tick is due in {} {says}", human(wait)))
        }
        TickOutcome::Ahead { by } => {
            let by = human(by);
            let says = "a clock was wrong when it began. No tick of this key begins until then; give all processes another key, or wait";
            let message =
                format!("the last tick of this key is {by} ahead of the store's clock: {says}");
            (Status::EARLY, message)
        }
        TickOutcome::NotDue => {
            let says = "no tick is due: the last one is too late, see --max-lateness";
            (Status::MISSED, says.to_owned())
        }
    };
    runner.output.note(message);
    Ok(status)
}

/// How another attempt comes about: this program makes one.
fn next_attempt(tick: &Tick, options: &TickOptions) -> String {
    let these = format!("attempt {} of {} has failed", tick.attempt, options.attempts);
    let Some(lateness) = options.lateness() else {
        return format!("{these}; the next one needs another start of this command");
    };
    match lateness.saturating_sub(since(tick.scheduled_at)) {
        Duration::ZERO => {
            format!("{these}, and the tick is too late for another, see --max-lateness")
        }
        left => format!(
            "{these}; the next one needs another start of this command within {}, see --max-lateness",
            human(left)
        ),
    }
}

/// Runs the command for each tick, until a signal asks this program to end. A tick that was granted by then is still
/// run; a second signal goes to its command, or ends this program at once.
async fn run_each(
    ticks: Ticks<DynBackend>,
    shutdown: CancellationToken,
    runner: &Runner<'_>,
    signals: &mut Signals,
) -> Result<Status, Failure> {
    let (begin, mut begun) = mpsc::channel(1);
    let mut running = pin!(ticks.run(async |tick| announce(tick, &begin).await));
    loop {
        let begun = match next(running.as_mut(), &mut begun, signals).await {
            Left::Done(ended) => return Ok(ended.map(|()| Status::SUCCESS)?),
            Left::Signal(_) if shutdown.is_cancelled() => return Ok(Status::SUCCESS),
            Left::Signal(_) => {
                shutdown.cancel();
                continue;
            }
            Left::Begun(begun) => begun,
        };
        let tick = begun.tick.clone();
        let ended = run_tick(runner, begun, signals).await;
        if !matches!(&ended, Ok(ended) if !ended.was_asked_to_end) {
            shutdown.cancel();
        }
        let released = released(running.as_mut(), &tick, &shutdown, signals).await;
        let ended = ended?;
        let scheduled_at = utc(tick.scheduled_at);
        match runner.status(&ended, released) {
            Ok(Status::SUCCESS) => {}
            Ok(status) => {
                let message = format!("the command of {scheduled_at} ended with status {status}");
                runner.output.note(message);
            }
            Err(failure) => {
                runner.output.error(format!("the command of {scheduled_at}: {failure}"));
            }
        }
        // The recipe has ended, or is about to.
        if shutdown.is_cancelled() {
            return Ok(Status::SUCCESS);
        }
    }
}

/// Tells the other side of the channel of a tick, and waits until its command has ended.
async fn announce(tick: Tick, begin: &mpsc::Sender<Begun>) {
    let (sender, ended) = oneshot::channel();
    if begin.send(Begun { tick, _ended: sender }).await.is_ok() {
        // The sender is dropped, and sends nothing.
        let _ = ended.await;
    }
}

/// Goes on with the recipe until it has given back the lock of this tick. The recipe may end meanwhile. A signal makes
/// it try once more at the most.
async fn released<T, E: Into<Failure>>(
    mut recipe: Pin<&mut impl Future<Output = Result<T, E>>>,
    tick: &Tick,
    shutdown: &CancellationToken,
    signals: &mut Signals,
) -> Result<ReleaseResult, Failure> {
    loop {
        tokio::select! {
            biased;
            released = tick.released() => return Ok(unless_lost(released)?),
            _ = signals.next_ending(), if !shutdown.is_cancelled() => shutdown.cancel(),
            ended = recipe.as_mut() => {
                ended.map_err(Into::into)?;
                return Ok(unless_lost(tick.released().await)?);
            }
        }
    }
}

/// Waits for the next tick. A signal ends the wait; the recipe is then dropped.
async fn next<T>(
    recipe: Pin<&mut impl Future<Output = T>>,
    begun: &mut mpsc::Receiver<Begun>,
    signals: &mut Signals,
) -> Left<T> {
    tokio::select! {
        biased;
        Some(begun) = begun.recv() => Left::Begun(begun),
        signal = signals.next_ending() => Left::Signal(Status::of_signal(signal.as_raw())),
        ended = recipe => Left::Done(ended),
    }
}

/// Runs the command of this tick. If the command fails, another attempt may follow.
async fn run_tick(
    runner: &Runner<'_>,
    begun: Begun,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let tick = &begun.tick;
    let variables = [
        ("SYNCGUARD_TICK", utc(tick.scheduled_at)),
        ("SYNCGUARD_ATTEMPT", tick.attempt.to_string()),
    ];
    let ended = runner.run(tick, variables, signals).await;
    if !matches!(&ended, Ok(ended) if ended.status == Status::SUCCESS && !ended.was_lost) {
        tick.give_up();
    }
    ended
}
