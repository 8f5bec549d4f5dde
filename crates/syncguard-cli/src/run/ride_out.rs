//! `--ride-out`: goes on asking while the store is away.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use syncguard::authoring::recipes::RideOut as Outage;
use syncguard::contract::{AcquireRequest, AcquireResult};
use syncguard::{DynBackend, ErrorCode, Fence, LockBackend, LockError, forward};
use tokio::time::{Instant, sleep};

use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::time::human;

/// An outage of the store that is ridden out for this time after the first failure. Zero reports the first failure.
pub(super) struct RideOut {
    limit: Duration,
    output: Output,
    answered: Answered,
}

/// When the [watched](RideOut::watch) store last answered an acquire.
type Answered = Arc<Mutex<Option<Instant>>>;

impl RideOut {
    pub(super) fn new(limit: Duration, output: Output) -> Self {
        Self { limit, output, answered: Arc::default() }
    }

    /// The same store, whose answers tell a long wait for the lock from a long silence.
    pub(super) fn watch(&self, store: DynBackend) -> DynBackend {
        if self.limit.is_zero() {
            return store;
        }
        DynBackend::new(Watched { store, answered: Arc::clone(&self.answered) })
    }

    /// Repeats the attempt while it fails because the store is away. The attempts have the time between the failures, so
    /// an attempt that waits for the lock may take longer.
    ///
    /// # Errors
    ///
    /// The failure of the last attempt.
    pub(super) async fn over<T>(
        self,
        mut attempt: impl AsyncFnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (mut outage, mut is_noted) = (Outage::new(self.limit), self.limit.is_zero());
        loop {
            let began = Instant::now();
            let failure = match attempt().await {
                Err(failure) if failure.status() == Status::UNAVAILABLE => failure,
                result => return result,
            };
            // The store has answered meanwhile. The answer for one permit does not end an outage that meets another one.
            let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
            let was_answered = answered.is_some_and(|at| at > began + self.limit);
            if was_answered || !is_noted {
                let limit = human(self.limit);
                self.output.note(format!("{failure}; asks again for up to {limit}"));
                is_noted = true;
            }
            match outage.pause(ErrorCode::ServiceUnavailable, was_answered) {
                Some(pause) => sleep(pause).await,
                None => return Err(failure),
            }
        }
    }
}

/// A store that notes when it answers an acquire.
#[derive(Clone)]
struct Watched {
    store: DynBackend,
    answered: Answered,
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for Watched {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let answer = self.store.acquire(request).await?;
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(answer)
    }

    forward!(store: release, extend, is_locked, lookup);
    forward!(store: watch, health, inventory, capabilities, client_state);
}

#[cfg(test)]
mod tests {
    use syncguard::try_acquire;
    use tokio::time::timeout;

    use super::*;

    /// Each attempt fails after five seconds, as at a silent store. If the store answers until then, the failure begins
    /// another outage.
    #[tokio::test(start_paused = true)]
    async fn an_outage_ends_although_each_attempt_takes_longer_than_its_limit() {
        for (answers_at_once, answered, expected) in [(false, 0, 2), (true, 0, 2), (false, 2, 3)] {
            let ride_out = RideOut::new(Duration::from_secs(1), Output::new(true));
            let store = ride_out.watch(syncguard::connect("memory:").await.unwrap());
            let mut attempts = 0;
            let ridden = ride_out.over(async || -> Result<(), Failure> {
                attempts += 1;
                if answers_at_once {
                    drop(try_acquire(&store, "k").await?);
                }
                sleep(Duration::from_secs(5)).await;
                if attempts == answered {
                    drop(try_acquire(&store, "k").await?);
                }
                Err(Failure::new(Status::UNAVAILABLE, "the store is silent"))
            });
            timeout(Duration::from_secs(3600), ridden).await.unwrap().unwrap_err();
            assert_eq!(attempts, expected);
        }
    }
}
