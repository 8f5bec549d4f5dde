//! Trying for ticks, and running their work.

use std::time::Duration;

use syncguard_core::Jitter;
use syncguard_core::authoring::OutageLog;
use syncguard_core::authoring::recipes::{
    FenceWindow, Parting, Refusal, TriedInWindow, try_acquire_in_window,
};
use syncguard_core::contract::{FenceToken as _, TIME_STEP};
use syncguard_core::{
    Contention, Fence, LockBackend, LockError, LockGuard, ReleaseResult, Timestamp,
};
use tokio::time::Instant;

use super::Ticks;
use super::clock::{LONGEST_SLEEP, sleep_unless};
use super::due::{Due, Missed};
use super::tick::{Counted, Tick, done, window};
use crate::outage::{Outage, PAUSES, give_back};

/// The work of this recipe in the log of an outage.
const SCHEDULE: &str = "the schedule";

/// The answer of [`Ticks::try_once`]. It is no [`TryAcquired`](syncguard_core::TryAcquired): the lock is given back by then,
/// and a tick that does not begin has more reasons than another holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickOutcome<T> {
    /// This process has run the work of the tick.
    Ran(T),
    /// The tick was started before, as often as it may be.
    Taken,
    /// Another process holds the key: an earlier tick, or an attempt of this tick, is still running.
    Busy(Contention),
    /// This machine's clock is far ahead of the store's: the tick is due after this time.
    TooEarly {
        /// How long until the tick, by the store's clock.
        wait: Duration,
    },
    /// The last tick of the key is in the future by the store's clock: a clock was wrong when it began. Until then no tick
    /// of the key begins, because a counter never falls. Another key has ticks at once.
    Ahead {
        /// How far the last tick is ahead of the store's clock.
        by: Duration,
    },
    /// No tick is due: the last tick is too late. With [`Missed::Each`](super::Missed::Each) it may also be over.
    NotDue,
}

/// The lock of a tick and the tick for its work.
type Started<B> = (Box<LockGuard<B>>, Tick<<B as LockBackend>::Fence>);

impl<B: LockBackend> Ticks<B> {
    /// Runs the work of each tick that this process gets, until the shutdown token fires. A tick that was granted by then
    /// is still run.
    ///
    /// The work gets a [`Tick`]. The lock of the tick is renewed while the work runs. If the lock is lost nevertheless,
    /// [`lost`](syncguard_core::Held::lost) of the [`Tick`] tells the work, which is not dropped: at most once
    /// still holds, but the next tick or attempt may begin beside the work.
    ///
    /// A tick waits for the end of an earlier tick, as long as it is not too late and, unless each missed tick is made
    /// up for, the next tick is not due. If the store fails, this process goes on asking at least once a second, and logs
    /// one warning for each outage.
    ///
    /// In a spawned task the work owns its state, as in `async move |tick| reports.send(tick).await`. If it borrows, the
    /// compiler says "implementation of `Send` is not general enough".
    ///
    /// If the store calls a tick too early, this process asks again after ten seconds at the latest, until the tick is too
    /// late by this machine's clock. So a clock that was wrong for a moment costs ten seconds, and a machine whose clock is
    /// further ahead of the store's than the largest lateness runs nothing.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key or setting and for a backend without fence windows, and failures of the store that
    /// a retry cannot mend, such as `AuthFailed`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work at its current await and gives the lock back in the background. The tick is not
    /// marked as done.
    pub async fn run<W>(self, mut work: W) -> Result<(), LockError>
    where
        W: AsyncFnMut(Tick<B::Fence>),
    {
        self.check()?;
        let Some(mut settled) = self.first_settled().await? else { return Ok(()) };
        let counter_ahead = OutageLog::default();
        self.warn_if_ahead(settled, &counter_ahead).await?;
        let mut outage = Outage::new(SCHEDULE);
        let rules = self.rules(self.missed);
        // A tick that the store has called too early. If it were computed anew, it could be a later one.
        let mut early: Option<Timestamp> = None;
        let far_ahead = OutageLog::default();
        // The tick of the last request that may have been carried out and had no answer.
        let mut in_doubt = None;
        while !self.shutdown.is_cancelled() {
            let now = self.now()?;
            // If this clock was set back, the counter says which ticks are over.
            settled = settled.min(now);
            // A tick that is too late is dropped, and a tick that has not come, because this clock was set back.
            early = early.filter(|tick| rules.is_in_time(*tick, now));
            let due = early.map_or_else(|| rules.due(settled, now), Due::Now);
            let tick = match due {
                Due::Now(tick) => tick,
                Due::Later(next) => {
                    self.clock.sleep_towards(next, &self.shutdown).await?;
                    continue;
                }
            };
            let pause = match Box::pin(self.try_tick(tick)).await {
                Ok(TriedInWindow::Acquired(guard)) => {
                    outage.end();
                    early = None;
                    match self.start(guard, tick)? {
                        Some((guard, tick)) => {
                            work(tick.clone()).await;
                            let is_over = Box::pin(self.finish(guard, &tick)).await;
                            if is_over || self.attempts == 1 {
                                settled = settled.max(tick.scheduled_at);
                                continue;
                            }
                            // Another process may have more luck.
                            Jitter::Equal.of(PAUSES.longest)
                        }
                        None => Jitter::Equal.of(PAUSES.longest),
                    }
                }
                Ok(TriedInWindow::Refused(Refusal::Taken { counter })) => {
                    outage.end();
                    let last = Counted::new(counter).map_or(tick, |counted| counted.tick);
                    self.warn_if_ahead(last, &counter_ahead).await?;
                    if in_doubt == Some(tick) {
                        tracing::warn!(
                            tick_ms = tick.as_millis(),
                            "a tick may be lost: a request for it had no answer, and it counts as started"
                        );
                    }
                    early = None;
                    settled = settled.max(tick);
                    continue;
                }
                Ok(TriedInWindow::Busy(contention)) => {
                    outage.end();
                    let free = contention.free_within.unwrap_or(PAUSES.longest);
                    Jitter::Equal.of(free.clamp(PAUSES.first, PAUSES.longest))
                }
                Ok(TriedInWindow::Refused(Refusal::TooEarly { wait })) => {
                    outage.end();
                    if wait > LONGEST_SLEEP && far_ahead.begins() {
                        tracing::warn!(
                            ahead_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                            "this machine's clock is ahead of the store's; a tick waits for the store's time, unless it is too late by then"
                        );
                    }
                    early = Some(tick);
                    // Either clock may be set right meanwhile.
                    wait.min(LONGEST_SLEEP) + TIME_STEP
                }
                Err(error) => {
                    if error.is_outcome_unknown() {
                        in_doubt = Some(tick);
                    }
                    outage.pause(error)?
                }
            };
            sleep_unless(pause, &self.shutdown).await;
        }
        Ok(())
    }

    /// Runs the work of the tick that is due now, if this process gets it: for programs that have a scheduler of their
    /// own, such as cron.
    ///
    /// The call makes one attempt. If this machine's clock is up to ten seconds ahead of the store's, and no further than
    /// the largest lateness, the call waits for the store's time and tries the same tick again. A key that was never used
    /// for ticks has missed none: its last tick is due for a minute, or for the largest lateness if that is set.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key or setting and for a backend without fence windows, and the store's failures.
    /// After an error the attempt may be used up: the store may have carried out the request, or granted a lock that
    /// could not be kept.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work at its current await and gives the lock back in the background. The tick is not
    /// marked as done.
    pub async fn try_once<W, F>(&self, work: W) -> Result<TickOutcome<F::Output>, LockError>
    where
        W: FnOnce(Tick<B::Fence>) -> F,
        F: Future,
    {
        self.check()?;
        let settled = self.settled().await?;
        let now = self.now()?;
        // A key that was never used has missed nothing.
        let rules = self.rules(settled.map_or(Missed::Skip, |_| self.missed));
        let settled = match settled {
            Some(settled) => settled,
            None => before(self.schedule.last_until(now).unwrap_or(now))?,
        };
        let tick = match rules.due(settled, now) {
            Due::Now(tick) => tick,
            Due::Later(_) => {
                if let Some(by) = self.ahead(settled).await? {
                    return Ok(TickOutcome::Ahead { by });
                }
                let last = self.schedule.last_until(now);
                let is_taken = last.is_some_and(|last| last <= settled);
                return Ok(if is_taken { TickOutcome::Taken } else { TickOutcome::NotDue });
            }
        };
        let asked = Instant::now();
        loop {
            return Ok(match self.try_tick(tick).await? {
                TriedInWindow::Acquired(guard) => match self.start(guard, tick)? {
                    Some((guard, tick)) => {
                        let output = work(tick.clone()).await;
                        self.finish(guard, &tick).await;
                        TickOutcome::Ran(output)
                    }
                    None => TickOutcome::Taken,
                },
                TriedInWindow::Refused(Refusal::Taken { .. }) => TickOutcome::Taken,
                TriedInWindow::Busy(contention) => TickOutcome::Busy(contention),
                TriedInWindow::Refused(Refusal::TooEarly { wait })
                    if asked.elapsed() + wait <= LONGEST_SLEEP
                        && self.now()? - tick + wait <= rules.max_lateness =>
                {
                    tokio::time::sleep(wait + TIME_STEP).await;
                    continue;
                }
                TriedInWindow::Refused(Refusal::TooEarly { wait }) => {
                    TickOutcome::TooEarly { wait }
                }
            });
        }
    }

    /// The last tick that is over when this process begins. A key that was never used begins now. `None` at shutdown.
    async fn first_settled(&self) -> Result<Option<Timestamp>, LockError> {
        let began = self.now()?;
        let mut outage = Outage::new(SCHEDULE);
        loop {
            match self.settled().await {
                Ok(settled) => return Ok(settled.or(Some(began))),
                Err(error) => {
                    if !sleep_unless(outage.pause(error)?, &self.shutdown).await {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The last tick that is over, by the key's counter; `None` for a key that was never used for ticks.
    async fn settled(&self) -> Result<Option<Timestamp>, LockError> {
        let Some(counter) = self.counter().await? else { return Ok(None) };
        match Counted::new(counter) {
            Some(counted) if counted.is_over(self.attempts) => Ok(Some(counted.tick)),
            Some(counted) => before(counted.tick).map(Some),
            None => {
                tracing::warn!(
                    "the key was used for plain locks and not for ticks, so it has missed no tick"
                );
                Ok(None)
            }
        }
    }

    async fn try_tick(&self, tick: Timestamp) -> Result<TriedInWindow<B>, LockError> {
        self.try_in(window(tick, self.attempts)?).await
    }

    pub(super) async fn try_in(&self, window: FenceWindow) -> Result<TriedInWindow<B>, LockError> {
        let config = self.config.clone();
        // Boxed: otherwise the driver's future would be part of every caller's future.
        Box::pin(try_acquire_in_window(&self.backend, config, window)).await
    }

    /// The tick to give to the work; `None` if the process stalled until the lock was over. Dropping the guard gives the
    /// lock back.
    fn start(&self, guard: LockGuard<B>, tick: Timestamp) -> Result<Option<Started<B>>, LockError> {
        if guard.valid_for().is_zero() {
            tracing::warn!(
                "the lock of a tick was over before its work began; the attempt is lost"
            );
            return Ok(None);
        }
        let tick = Tick::new(guard.held(), tick, self.now()? - tick);
        Ok(Some((Box::new(guard), tick)))
    }

    /// Releases the lock of a tick, and marks the tick as done in the same request, or later if the store was away. Returns
    /// false if the tick is not done.
    async fn finish(&self, guard: Box<LockGuard<B>>, tick: &Tick<B::Fence>) -> bool {
        let parting = match done(tick.scheduled_at) {
            Ok(done) if !tick.is_given_up() => Parting::Counter(done),
            _ => self
                .pause_after(tick.attempt, tick.scheduled_at)
                .map_or(Parting::Free, Parting::Pause),
        };
        let held_for = guard.valid_for();
        let over = Instant::now() + held_for;
        let mut released = give_back(*guard, parting, "a tick's").await;
        let is_late = match &released {
            Err(_) => true,
            Ok(released) => !released.is_released() && Instant::now() >= over,
        };
        if let Parting::Counter(done) = parting
            && is_late
        {
            if released.is_err() {
                // The release goes on in the background until the lock expires.
                let drained = self.backend.client_state().drained(held_for);
                tokio::select! {
                    biased;
                    _ = drained => {}
                    () = self.shutdown.cancelled() => {}
                }
            }
            // Nobody else could have the lock before the work had ended, unless that was over by then.
            let own = tick.fence().fence().filter(|_| !held_for.is_zero());
            if self.mark(own, done, tick.scheduled_at).await {
                released = Ok(ReleaseResult::Released);
            } else {
                tracing::warn!(
                    "a tick whose work has ended could not be marked as done; it may run again"
                );
            }
        }
        let is_done =
            !tick.is_given_up() && released.as_ref().is_ok_and(|released| released.is_released());
        tick.set_released(released);
        is_done
    }

    /// Marks a tick as done after its lock, while its last attempt is `own`. Goes on through an outage for another TTL, if
    /// an attempt may begin then. Returns whether no attempt follows.
    async fn mark(&self, own: Option<Fence>, done: Fence, tick: Timestamp) -> bool {
        let late_by = self.now().map_or(Duration::MAX, |now| now - tick);
        let in_time = self.rules(self.missed).max_lateness.saturating_sub(late_by);
        let until = Instant::now() + in_time.min(self.config.ttl().as_duration());
        for failures in 1.. {
            let pause = match self.try_mark(own, done).await {
                Ok(is_over) => return is_over,
                Err(_) => PAUSES.pause(failures),
            };
            if Instant::now() + pause > until || !sleep_unless(pause, &self.shutdown).await {
                break;
            }
        }
        false
    }

    /// An attempt that begins between the two requests runs beside a tick that is done, and is the last one.
    async fn try_mark(&self, own: Option<Fence>, done: Fence) -> Result<bool, LockError> {
        let counter = self.counter().await?;
        if counter.is_none() || counter != own {
            return Ok(counter >= Some(done));
        }
        self.inventory()?.raise_counter(self.config.key()?, done).await.map(|_| true)
    }
}

/// A time before this tick and not before an earlier one.
fn before(tick: Timestamp) -> Result<Timestamp, LockError> {
    Timestamp::from_millis(tick.as_millis().saturating_sub(1000))
}
