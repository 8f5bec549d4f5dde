//! The state of a key's ticks, for people.

use std::time::Duration;

use syncguard_core::authoring::OutageLog;
use syncguard_core::authoring::recipes::{Refusal, TriedInWindow};
use syncguard_core::contract::{FenceToken, LookupRequest};
use syncguard_core::{Fence, LockBackend, LockError, LockInfo, Timestamp};

use super::Ticks;
use super::clock::LONGEST_SLEEP;
use super::tick::{Counted, never};

/// The state of a key's ticks: the answer of [`Ticks::status`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TickStatus<F: FenceToken = Fence> {
    /// The last tick that began; `None` if there was none yet.
    pub last: Option<StartedTick>,
    /// The lock of the running attempt, if there is one.
    pub running: Option<LockInfo<F>>,
    /// The next tick of the schedule, by the store's time.
    pub next: Option<Timestamp>,
    /// The store's time when it answered: by it, and not by the clock of a machine, a tick is overdue.
    pub now: Timestamp,
}

impl<F: FenceToken> TickStatus<F> {
    /// How far the last tick is ahead of the store's time, if that is more than ten seconds: a clock was wrong when the tick
    /// began. Until that time no tick of the key begins, and nothing lowers its counter; another key has ticks at once.
    #[must_use]
    pub fn ahead(&self) -> Option<Duration> {
        let ahead = self.last?.scheduled_at - self.now;
        (ahead > LONGEST_SLEEP).then_some(ahead)
    }
}

/// A tick that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartedTick {
    /// The time of the tick in the schedule.
    pub scheduled_at: Timestamp,
    /// How many attempts have begun; `None` if the tick is marked as done, which hides their number.
    pub attempts: Option<u16>,
}

impl<B: LockBackend> Ticks<B> {
    /// The last tick, the running attempt and the next tick. It changes nothing. It is for people: a program must not
    /// decide by it whether to run a tick.
    ///
    /// The store tells its time in the answer to a request for a tick that never comes, so the process needs the
    /// permissions of one that runs ticks.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key or setting and for a backend without fence windows, and the store's failures.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn status(&self) -> Result<TickStatus<B::Fence>, LockError> {
        self.check()?;
        let last = self.counter().await?.and_then(Counted::new).map(|counted| StartedTick {
            scheduled_at: counted.tick,
            attempts: (!counted.is_done()).then_some(counted.attempts),
        });
        let running = self.backend.lookup(LookupRequest::by_key(self.config.key()?)?).await?;
        let now = self.store_time().await?;
        Ok(TickStatus { last, running, next: self.schedule.next_after(now), now })
    }

    /// How far the key's last tick is ahead of the store's time, if a clock was wrong when the tick began. As long as this
    /// machine's clock agrees with the tick, the store is not asked.
    pub(super) async fn ahead(&self, last: Timestamp) -> Result<Option<Duration>, LockError> {
        if last - self.now()? <= LONGEST_SLEEP {
            return Ok(None);
        }
        let by = last - self.store_time().await?;
        let ahead_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        if by > LONGEST_SLEEP {
            tracing::warn!(
                ahead_ms,
                "the key's last tick is ahead of the store's time: a clock was wrong when it began; no tick of the key begins until then"
            );
            return Ok(Some(by));
        }
        tracing::warn!("this machine's clock is behind the store's, so its ticks are late");
        Ok(None)
    }

    /// Logs at most once a minute that the last tick is ahead.
    pub(super) async fn warn_if_ahead(
        &self,
        last: Timestamp,
        log: &OutageLog,
    ) -> Result<(), LockError> {
        if last - self.now()? > LONGEST_SLEEP && log.begins() {
            // A failure of the store shows in the next request.
            let _ = self.ahead(last).await;
        }
        Ok(())
    }

    /// The store's time, which a request for a tick that never comes tells.
    async fn store_time(&self) -> Result<Timestamp, LockError> {
        let never = never()?;
        match (self.try_in(never).await?, never.not_before()) {
            (TriedInWindow::Refused(Refusal::TooEarly { wait }), Some(time)) => {
                let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                Timestamp::from_millis(time.as_millis().saturating_sub(wait))
            }
            // A key whose fences are used up.
            _ => self.now(),
        }
    }
}
