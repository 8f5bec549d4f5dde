//! The state of a key's ticks, for people.

use syncguard_core::contract::LookupRequest;
use syncguard_core::{LockBackend, LockError, LockInfo, Timestamp};

use super::Ticks;
use super::tick::Counted;

/// The state of a key's ticks: the answer of [`Ticks::status`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TickStatus<F: syncguard_core::contract::FenceToken = syncguard_core::Fence> {
    /// The last tick that began; `None` if there was none yet.
    pub last: Option<StartedTick>,
    /// The lock of the running attempt, if there is one.
    pub running: Option<LockInfo<F>>,
    /// The next tick of the schedule, by the clock of this process.
    pub next: Option<Timestamp>,
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
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key or setting, and the store's failures.
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
        Ok(TickStatus { last, running, next: self.schedule.next_after(self.now()?) })
    }
}
