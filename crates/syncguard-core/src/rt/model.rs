//! A model of the runtime for shuttle: tasks run in any order, and the clock moves at any time.
//!
//! The tasks of one execution all run on one thread, so the state can be thread-local.

use std::cell::RefCell;
use std::future::Future;
use std::ops::Add;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

#[derive(Default)]
struct World {
    now: Duration,
    timers: Vec<(Duration, Waker)>,
}

/// A point on the model's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        WORLD.with_borrow(|world| Self(world.now))
    }

    pub(crate) fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

pub(crate) fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send + Unpin {
    struct Sleep(Instant);

    impl Future for Sleep {
        type Output = ();

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if self.0 <= Instant::now() {
                return Poll::Ready(());
            }
            WORLD.with_borrow_mut(|world| world.timers.push((self.0.0, context.waker().clone())));
            Poll::Pending
        }
    }

    Sleep(deadline)
}

pub(crate) fn sleep_awake(time: Duration) -> impl Future<Output = ()> {
    sleep_until(Instant::now() + time)
}

pub(crate) fn is_usable() -> bool {
    true
}

#[derive(Clone, Debug)]
pub(crate) struct Spawner;

/// The model has one runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RuntimeId;

impl Spawner {
    pub(crate) fn current() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the real one holds a runtime")]
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        spawn(future);
    }

    #[expect(clippy::unused_self, reason = "the real one may be without a runtime")]
    pub(crate) fn candidates(&self) -> impl Iterator<Item = Runtime> + use<> {
        std::iter::once(Runtime)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Runtime;

impl Runtime {
    #[expect(clippy::unused_self, reason = "the real one is one of several")]
    pub(crate) fn id(&self) -> RuntimeId {
        RuntimeId
    }

    #[expect(clippy::unused_self, reason = "the real one holds a runtime")]
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        spawn(future);
    }
}

fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    drop(shuttle::future::spawn(future));
}

pub(crate) use shuttle::future::yield_now;

/// shuttle's mutex: each lock is a point where another task may run.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The number of schedules to explore: the usual number times the environment variable
/// `SYNCGUARD_SHUTTLE_TIMES`. The number is printed, so that reports can count the schedules.
fn schedules(usual: usize) -> usize {
    let times = std::env::var("SYNCGUARD_SHUTTLE_TIMES").ok().and_then(|it| it.parse().ok());
    let schedules = usual.saturating_mul(times.unwrap_or(1));
    println!("shuttle: {schedules} schedules");
    schedules
}

/// Explores this many random schedules of a scenario, with a clock that moves.
pub(crate) fn explore<F>(executions: usize, scenario: fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    run_all(executions, move || with_clock(scenario()));
}

/// Explores with a clock that stands still: a task that waits only for time waits for ever, and shuttle
/// reports it.
pub(crate) fn explore_without_time<F>(executions: usize, scenario: fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    run_all(executions, move || shuttle::future::block_on(scenario()));
}

/// Runs each schedule from time zero.
fn run_all(executions: usize, run: impl Fn() + Send + Sync + 'static) {
    let scheduler = shuttle::scheduler::RandomScheduler::new(schedules(executions));
    shuttle::Runner::new(scheduler, config()).run(move || {
        WORLD.with_borrow_mut(|world| *world = World::default());
        run();
        WORLD.with_borrow_mut(|world| world.timers.clear());
    });
}

/// Futures of a debug build need a larger stack.
fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = 256 * 1024;
    config
}

/// Runs a scenario with the clock as one more task.
fn with_clock(scenario: impl Future<Output = ()> + Send + 'static) {
    let over = Arc::new(AtomicBool::new(false));
    let clock = shuttle::future::spawn({
        let over = Arc::clone(&over);
        async move {
            while !over.load(Ordering::Relaxed) {
                // The clock is slow: most steps of the other tasks take no time.
                if shuttle::rand::Rng::gen_range(&mut shuttle::rand::thread_rng(), 0..6) == 0 {
                    advance();
                }
                yield_now().await;
            }
        }
    });
    shuttle::future::block_on(async move {
        scenario.await;
        over.store(true, Ordering::Relaxed);
        clock.await.unwrap();
    });
}

/// Moves the clock to the next timer and wakes the tasks that wait for it.
fn advance() {
    let due = WORLD.with_borrow_mut(|world| {
        world.now = world.timers.iter().map(|(at, _)| *at).min()?.max(world.now);
        let now = world.now;
        Some(world.timers.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>())
    });
    for (_, waker) in due.unwrap_or_default() {
        waker.wake();
    }
}
