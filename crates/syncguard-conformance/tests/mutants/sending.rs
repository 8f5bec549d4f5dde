//! Requests with deadlines, and the clean-up of requests with an unknown outcome.

use std::time::Duration;

use syncguard_core::authoring::cancel::{self, Caller, Settle, Settled, Unsettled};
use syncguard_core::contract::{AcquireRequest, AcquireResult};
use syncguard_core::{ErrorCode, Fence, Key, LockError, LockId, NotHeld, ReleaseResult, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::mutants::backend::{Backend, travel};
use crate::mutants::flaws::Flaw;
use crate::mutants::store::Store;

/// How long the backend waits for an answer.
pub(crate) const BOUND: Duration = Duration::from_secs(1);

/// The reason for a missing answer.
enum Lost {
    Connection,
    Time,
}

impl From<Lost> for LockError {
    fn from(lost: Lost) -> Self {
        let error = match lost {
            Lost::Connection => Self::new(ErrorCode::ServiceUnavailable, "the connection is lost"),
            Lost::Time => Self::new(ErrorCode::NetworkTimeout, "no answer in time"),
        };
        error.with_unknown_outcome()
    }
}

impl Backend {
    /// Sends a request, which the store refuses after the deadline.
    async fn ask<T: Send + 'static>(
        &self,
        deadline: Timestamp,
        unless: Flaw,
        work: impl FnOnce(&mut Store, u64) -> Result<T, LockError> + Send + 'static,
    ) -> Result<Result<T, LockError>, Lost> {
        travel().await;
        let (sender, answer) = oneshot::channel();
        let (store, sent) = (self.handle(), Instant::now());
        let carry_out = move || {
            let answer = store.with(|store, now| {
                if now > deadline.as_millis() && store.flaw() != Some(unless) {
                    return Err(LockError::new(ErrorCode::NetworkTimeout, "it came too late"));
                }
                work(store, now)
            });
            let _ = sender.send((answer, store.time()));
        };
        let gone = self.gate.send(Box::new(carry_out));
        let answer = tokio::select! {
            biased;
            answer = answer => answer.map_err(|_| Lost::Connection),
            () = gone.cancelled() => Err(Lost::Connection),
            () = tokio::time::sleep_until(sent + BOUND) => Err(Lost::Time),
        };
        travel().await;
        let (answer, now) = answer?;
        if let Ok(now) = Timestamp::from_millis(now) {
            self.clock.learn(sent, now);
        }
        Ok(answer)
    }

    /// Sends an acquire, and resends it if the connection is lost.
    pub(crate) async fn ask_for_a_lock(
        &self,
        request: AcquireRequest,
        caller: &Caller,
    ) -> Result<AcquireResult, LockError> {
        let (first, answer) = (self.deadline()?, self.send_once(&request, caller).await?);
        let lost = match answer {
            Ok(answer) => return answer,
            Err(lost) => lost,
        };
        if matches!(lost, Lost::Time) || caller.check().is_err() {
            return Err(lost.into());
        }
        let answer = self.send_once(&request, caller).await?.map_err(LockError::from)?;
        if matches!(answer, Ok(AcquireResult::Acquired(_)))
            && !self.has(Flaw::forgets_the_first_of_two_acquires_when_it_is_late)
        {
            let unsettled = Unsettled::new(&request, first, BOUND);
            self.sent_twice.lock().unwrap().insert(request.lock_id, unsettled);
        }
        answer
    }

    async fn send_once(
        &self,
        request: &AcquireRequest,
        caller: &Caller,
    ) -> Result<Result<Result<AcquireResult, LockError>, Lost>, LockError> {
        let (request, deadline) = (request.repeat(), self.deadline()?);
        caller.sends(deadline, BOUND);
        let carry_out = move |store: &mut Store, now| store.acquire(&request, now);
        Ok(self.ask(deadline, Flaw::carries_out_late_acquires, carry_out).await)
    }

    pub(crate) async fn ask_to_release(
        &self,
        lock_id: LockId,
        raised: Option<(Key, Fence)>,
    ) -> Result<ReleaseResult, LockError> {
        let work = move |store: &mut Store, now| store.release_counted(lock_id, raised, now);
        let answer = self.ask(self.deadline()?, Flaw::carries_out_late_releases, work).await??;
        let sent_twice = self.sent_twice.lock().unwrap().remove(&lock_id);
        if let Some(acquire) = sent_twice {
            cancel::settle_later(self, acquire);
        }
        Ok(answer)
    }

    pub(crate) async fn ask_to_extend<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store, u64) -> Result<T, LockError> + Send + 'static,
    ) -> Result<T, LockError> {
        self.ask(self.deadline()?, Flaw::carries_out_late_extends, work).await?
    }

    fn deadline(&self) -> Result<Timestamp, LockError> {
        let is_hasty = self.has(Flaw::refuses_what_is_a_little_late);
        let bound = if is_hasty { Duration::ZERO } else { BOUND };
        self.clock.deadline(bound).ok_or_else(|| LockError::internal("no time was learned"))
    }
}

impl Settle for Backend {
    type VoidAfter = Timestamp;

    async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        let lock_id = acquire.lock_id;
        let work = move |store: &mut Store, now| Ok((store.release(lock_id, now)?, now));
        let unless = Flaw::carries_out_late_releases;
        let (answer, now) = self.ask(self.deadline()?, unless, work).await??;
        if matches!(answer, ReleaseResult::NotHeld(NotHeld::NotFound))
            && self.has(Flaw::ends_the_clean_up_of_a_late_acquire_at_the_first_not_held)
        {
            return Ok(Settled::Done);
        }
        // Before the deadline the acquire may still arrive, and the first request may arrive after a release.
        Ok(match acquire.void_after {
            Some(deadline) if now <= deadline.as_millis() => {
                Settled::NotYet(self.clock.passes_in(deadline))
            }
            _ => Settled::Done,
        })
    }
}
