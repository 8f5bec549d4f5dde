//! Each tick of a schedule runs once across all processes.

mod clock;
#[cfg(feature = "cron")]
mod cron;
mod due;
mod run;
mod schedule;
mod status;
mod tick;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use syncguard_core::authoring::RetryPauses;
use syncguard_core::authoring::checked_timeout;
use syncguard_core::authoring::recipes::as_recipe;
use syncguard_core::inventory::Inventory;
use syncguard_core::{
    CancellationToken, Fence, Jitter, LockBackend, LockConfig, LockError, Timestamp,
};

use self::clock::Clock;
pub use self::due::Missed;
use self::due::Rules;
pub use self::run::TickOutcome;
pub use self::schedule::Schedule;
pub use self::status::{StartedTick, TickStatus};
use self::tick::MOST_ATTEMPTS;
pub use self::tick::Tick;
use crate::settings::goes_on;

/// The recipe that observers are told for these locks.
const RECIPE: &str = "ticks";

/// A schedule whose ticks each run once, across all processes with the same key.
///
/// A lock alone covers the time of the work, and not the tick: a process whose clock is two seconds late takes the lock
/// after the work and runs the tick again. Here the fence counter of the key remembers the tick. A tick is granted only
/// while the counter is below the tick, and moves it there, so no clock, pause or late request starts it a second time.
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::{CancellationToken, LockBackend, LockError};
/// use syncguard_recipes::{Schedule, Ticks};
///
/// # async fn send_reports(_: impl Sized) {}
/// async fn reports<B: LockBackend>(backend: B, shutdown: CancellationToken) -> Result<(), LockError> {
///     let hourly = Schedule::every(Duration::from_secs(3600))?;
///     let ticks = Ticks::new(backend, "reports", hourly).with_shutdown(shutdown);
///     ticks.run(async |tick| send_reports(tick.scheduled_at).await).await
/// }
/// ```
///
/// - **At most once** is the default. If the process dies during the work, the tick is lost.
/// - **With attempts**, the tick is tried again after a crash, by any process and with a higher fence, until an attempt
///   is done or the attempts are used up. Work that has ended, and whose process died before it could say so, runs again.
/// - **Exactly once** needs the help of the data: store the fence of the tick beside the data, in the same transaction.
///
/// The store's time decides when a tick may begin, so a process whose clock is ahead uses up no coming tick. The clock of
/// a process only decides when the process asks.
///
/// A store that forgets its fences may run a tick again; a [limit on lateness](Self::with_max_lateness) keeps that to
/// recent ticks. Use the key for nothing else: a plain acquire of the key, of the TypeScript library too, uses up an
/// attempt of the last tick. The backend has to
/// [support fence windows](syncguard_core::contract::BackendCapabilities::supports_fence_windows), as all stores of this
/// library do.
#[must_use = "a schedule does nothing until it is run"]
pub struct Ticks<B> {
    backend: B,
    config: LockConfig,
    schedule: Schedule,
    attempts: u16,
    retry_after: Duration,
    missed: Missed,
    max_lateness: Option<Duration>,
    shutdown: CancellationToken,
    clock: Clock,
}

impl<B: LockBackend> Ticks<B> {
    /// The ticks of this schedule, among all processes that use this key. Takes the key, or a [`LockConfig`] with it, for the
    /// lock of a tick: after a crash, the next tick or attempt waits for up to its TTL and the
    /// [tolerance](syncguard_core::contract::TIME_TOLERANCE); its note is `ticks` unless another one is set, and by that the
    /// command `syncguard` tells a tick from other locks. The lock is renewed as long as the work runs.
    ///
    /// [`run`](Self::run) reports a bad argument. How long and how often to try is one, and so are a time to ride out, a
    /// cancellation token and a minimum hold: a schedule goes on until the shutdown, and its counter outlasts each tick.
    pub fn new(backend: B, config: impl Into<LockConfig>, schedule: Schedule) -> Self {
        Self {
            backend,
            config: as_recipe(config, RECIPE),
            schedule,
            attempts: 1,
            retry_after: Duration::from_secs(5),
            missed: Missed::Skip,
            max_lateness: None,
            shutdown: CancellationToken::new(),
            clock: Clock::new(Arc::new(SystemTime::now)),
        }
    }

    syncguard_core::setters! {
        /// How many attempts a tick has in all, 1 to 999. Default: 1, so that a tick runs at most once.
        ///
        /// With more, an attempt whose process died, whose lock was lost or that was [given up](Tick::give_up) is followed by
        /// another one, after a [pause](Self::with_retry_after). The release of the lock marks the tick as done, whatever the
        /// number: a process that allows more attempts runs only a tick again that was not done.
        with_attempts(attempts: u16);
        /// The pause after an attempt that was [given up](Tick::give_up), which all processes keep. Default: 5 s. It doubles
        /// with each attempt of the tick, up to an hour. Zero is no pause.
        ///
        /// The key stays locked for this time, at most until the next tick is due, unless [each missed tick is made up
        /// for](Missed::Each), and at most until the tick is too late. There is no pause if no attempt is left.
        with_retry_after(retry_after: Duration);
        /// Which ticks are made up for that no process started in time. Default: none.
        ///
        /// The key's counter says which ticks were missed. A key that was never used for ticks has missed none:
        /// [`run`](Self::run) begins with the next tick by its own clock, and [`try_once`](Self::try_once) takes the last
        /// tick if it is no later than a minute, or than the [limit that is set](Self::with_max_lateness).
        with_missed(missed: Missed);
        /// How late a tick may begin, by the clock of the process; a tick that is later is skipped. Default: one minute with
        /// [`Missed::Skip`], no limit otherwise.
        with_max_lateness(max_lateness: Some(Duration));
        /// Ends [`run`](Self::run) when the token fires, after the end of the running work.
        with_shutdown(shutdown: CancellationToken);
    }

    /// For tests: reads this clock instead of the system's.
    #[doc(hidden)]
    pub fn with_clock(mut self, clock: Arc<dyn Fn() -> SystemTime + Send + Sync>) -> Self {
        self.clock = Clock::new(clock);
        self
    }

    /// The pause after a failed attempt of a tick; `None` if no attempt follows.
    fn pause_after(&self, attempt: u16, tick: Timestamp) -> Option<Duration> {
        let (rules, now) = (self.rules(self.missed), self.now().ok()?);
        let (first, jitter) = (self.retry_after, Jitter::None);
        let longest = first.max(Duration::from_secs(3600));
        let pause = RetryPauses { first, longest, jitter }.pause(attempt.into());
        // No attempt begins when the tick is too late, or if the next tick takes its place.
        let too_late = rules.max_lateness.saturating_sub(now - tick);
        let next = self.schedule.next_after(now).filter(|_| self.missed != Missed::Each);
        let pause = pause.min(too_late).min(next.map_or(Duration::MAX, |next| next - now));
        (attempt < self.attempts && !pause.is_zero()).then_some(pause)
    }

    fn rules(&self, missed: Missed) -> Rules<'_> {
        let max_lateness = self.max_lateness.unwrap_or_else(|| missed.default_lateness());
        Rules { schedule: &self.schedule, missed, max_lateness }
    }

    /// Reports the first bad setting.
    fn check(&self) -> Result<(), LockError> {
        self.config.check()?;
        goes_on(&self.config, "a schedule")?;
        if self.config.min_hold().is_some() {
            return Err(LockError::invalid_argument(
                "a tick has no minimum hold: the counter of its key outlasts it",
            ));
        }
        if !(1..=MOST_ATTEMPTS).contains(&self.attempts) {
            return Err(LockError::invalid_argument(format!(
                "a tick has {} attempts; 1 to {MOST_ATTEMPTS} are allowed",
                self.attempts
            )));
        }
        if let Some(lateness) = self.max_lateness {
            checked_timeout("largest lateness", lateness)?;
        }
        if !self.retry_after.is_zero() {
            checked_timeout("pause between attempts", self.retry_after)?;
        }
        self.inventory().map(drop)
    }

    fn inventory(&self) -> Result<Inventory<B::Fence>, LockError> {
        self.backend.inventory().ok_or_else(|| {
            LockError::invalid_argument(format!(
                "the backend {} has no inventory, which ticks need for their counters",
                self.backend.capabilities().backend
            ))
        })
    }

    /// The key's counter; `None` for a key that was never used.
    async fn counter(&self) -> Result<Option<Fence>, LockError> {
        self.inventory()?.fence_counter(self.config.key()?).await
    }

    fn now(&self) -> Result<Timestamp, LockError> {
        self.clock.now()
    }
}

impl<B: LockBackend> fmt::Debug for Ticks<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks")
            .field("backend", &self.backend.capabilities().backend)
            .field("config", &self.config)
            .field("schedule", &self.schedule)
            .field("attempts", &self.attempts)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}
