//! Backends whose server decides: Redis, PostgreSQL and memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use syncguard_core::authoring::StoreClock;
use syncguard_core::authoring::cancel::{Caller, Unsettled};
use syncguard_core::contract::{AcquireRequest, AcquireResult, Acquired, ExtendRequest, LookupBy};
use syncguard_core::{
    Contention, ErrorCode, ExtendResult, Fence, Key, LockError, LockId, ReleaseResult, Timestamp,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::wire::Wire;
use super::{BOUND, Kind, in_doubt, reason, time, unavailable, unintelligible};
use crate::flaw::Flaw;
use crate::protocol::{Record, Reply, Request, Window};

pub(super) struct Served {
    pub(super) wire: Wire,
    pub(super) kind: Kind,
    pub(super) clock: StoreClock,
    /// The connections, and the part that contenders may take.
    pub(super) pool: Arc<Semaphore>,
    contenders: Arc<Semaphore>,
    /// Locks whose acquire was sent more than once.
    doubtful: Mutex<HashMap<LockId, Unsettled>>,
    pub(super) flaw: Option<Flaw>,
}

struct Answer {
    reply: Reply,
    sent: Instant,
    is_doubled: bool,
    deadline: Timestamp,
    /// An earlier sending had no answer.
    lost: Option<LockError>,
}

/// The user of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    Contender,
    Holder,
}

impl Served {
    pub(super) fn new(wire: Wire, kind: Kind, flaw: Option<Flaw>) -> Self {
        Self {
            wire,
            kind,
            clock: StoreClock::new(),
            pool: Arc::new(Semaphore::new(4)),
            contenders: Arc::new(Semaphore::new(3)),
            doubtful: Mutex::default(),
            flaw,
        }
    }

    async fn ask_time(&self, until: Instant) -> Result<(), LockError> {
        let sent = Instant::now();
        if let Reply::Time { now } = self.wire.ask(Request::Time, until).await? {
            self.clock.learn(sent, time(now)?);
        }
        Ok(())
    }

    /// The twin of `Inner::write` in inner.rs of Redis, and of `query` in pool.rs of PostgreSQL.
    async fn write(
        &self,
        lane: Lane,
        caller: &Caller,
        request: impl Fn(u64) -> Request,
    ) -> Result<Answer, LockError> {
        let mut until = Instant::now() + BOUND;
        let _turn = match (self.kind, lane) {
            (Kind::Postgres, Lane::Contender) => {
                Some(self.connection(&self.contenders, until).await?)
            }
            _ => None,
        };
        let _connection = match self.kind {
            Kind::Postgres => {
                let connection = self.connection(&self.pool, until).await?;
                until = Instant::now() + BOUND;
                Some(connection)
            }
            Kind::Firestore => None,
        };
        if self.clock.deadline(BOUND).is_none() {
            self.ask_time(until).await?;
        }
        let (mut was_late, mut lost) = (false, None::<LockError>);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let deadline = self.clock.deadline(left);
            let deadline = deadline.ok_or_else(|| LockError::internal("no time is known"))?;
            caller.check().map_err(|error| in_doubt(error, lost.as_ref()))?;
            caller.sends(deadline, left);
            let sent = Instant::now();
            match self.wire.once(request(deadline.as_millis()), until).await {
                Ok((Reply::Late { now }, is_doubled)) => {
                    if is_doubled {
                        return Err(unavailable().with_unknown_outcome());
                    }
                    self.clock.learn(sent, time(now)?);
                    if was_late || until <= Instant::now() {
                        let error = LockError::new(ErrorCode::NetworkTimeout, "it came too late");
                        return Err(in_doubt(error, lost.as_ref()));
                    }
                    was_late = true;
                }
                Ok((reply, is_doubled)) => {
                    return Ok(Answer { reply, sent, is_doubled, deadline, lost });
                }
                Err(error) => {
                    let is_lost = error.code() == ErrorCode::ServiceUnavailable;
                    if self.kind != Kind::Postgres || !is_lost || lost.is_some() {
                        return Err(in_doubt(error, lost.as_ref()));
                    }
                    // Resend on another connection.
                    until = Instant::now() + BOUND;
                    if error.is_outcome_unknown() {
                        lost = Some(error);
                    } else {
                        return Err(error);
                    }
                }
            }
        }
    }

    pub(super) async fn connection(
        &self,
        of: &Arc<Semaphore>,
        until: Instant,
    ) -> Result<tokio::sync::OwnedSemaphorePermit, LockError> {
        let waited = timeout_at(until, Arc::clone(of).acquire_owned()).await;
        waited.ok().and_then(Result::ok).ok_or_else(unavailable)
    }

    pub(super) async fn acquire(
        &self,
        request: &AcquireRequest,
        caller: &Caller,
    ) -> Result<AcquireResult, LockError> {
        let make = |deadline| Request::Acquire {
            key: request.key.clone(),
            id: request.lock_id,
            ttl: request.ttl.as_millis(),
            window: request.fence_window.as_ref().map(Window::new),
            deadline,
        };
        let (mut lost, mut tries) = (None, 0);
        let answer = loop {
            let mut answer = self
                .write(Lane::Contender, caller, make)
                .await
                .map_err(|error| in_doubt(error, lost.as_ref()))?;
            lost = lost.or(answer.lost.take());
            tries += 1;
            if !matches!(answer.reply, Reply::Overtaken) || tries == 3 {
                break answer;
            }
        };
        if answer.is_doubled {
            // The effect of the other sending is unknown.
            return Err(unavailable().with_unknown_outcome());
        }
        match (answer.reply, lost) {
            (Reply::Granted { fence, expires_at, is_fresh }, lost) => {
                if is_fresh {
                    let granted_at = expires_at.saturating_sub(request.ttl.as_millis());
                    self.clock.learn(answer.sent, time(granted_at)?);
                }
                if lost.is_some() && self.flaw != Some(Flaw::ForgottenSending) {
                    // An earlier sending may still arrive, also after the release.
                    let unsettled = Unsettled::new(request, answer.deadline, BOUND);
                    self.doubtful().insert(request.lock_id, unsettled);
                }
                let lock = Acquired::new(request.lock_id, time(expires_at)?, Fence::new(fence)?);
                Ok(AcquireResult::Acquired(lock))
            }
            (_, Some(lost)) => Err(lost),
            (Reply::Held { expires_at, now }, None) => {
                self.clock.learn(answer.sent, time(now)?);
                Ok(AcquireResult::Locked(Contention::until(time(expires_at)?, time(now)?)))
            }
            (Reply::Refused { why, now }, None) => {
                self.clock.learn(answer.sent, time(now)?);
                Ok(AcquireResult::Refused(why.refusal()?))
            }
            (_, None) => Ok(AcquireResult::Locked(Contention::unknown())),
        }
    }

    pub(super) async fn release(
        &self,
        id: LockId,
    ) -> Result<(ReleaseResult, Option<u64>), LockError> {
        let make = |deadline| Request::Release { id, deadline };
        let answer = self.write(Lane::Holder, &Caller::new(None), make).await?;
        match answer.reply {
            Reply::Released => Ok((ReleaseResult::Released, None)),
            Reply::NotHeld { is_expired, now } => {
                self.clock.learn(answer.sent, time(now)?);
                // The lock may be gone because the other sending has released it.
                match answer.lost.or_else(|| answer.is_doubled.then(unavailable)) {
                    Some(lost) if !is_expired => Err(lost.with_unknown_outcome()),
                    _ => Ok((ReleaseResult::NotHeld(reason(is_expired)), Some(now))),
                }
            }
            _ => Err(unintelligible()),
        }
    }

    pub(super) async fn extend(&self, request: &ExtendRequest) -> Result<ExtendResult, LockError> {
        let (id, ttl) = (request.lock_id, request.ttl.as_millis());
        let expected = request.expected_expiry.map(Timestamp::as_millis);
        let make = |deadline| Request::Extend { id, ttl, expected, deadline };
        let answer = self.write(Lane::Holder, &Caller::new(None), make).await?;
        if answer.is_doubled {
            return Err(unavailable().with_unknown_outcome());
        }
        match answer.reply {
            Reply::Extended { expires_at } => {
                Ok(ExtendResult::Extended { expires_at: time(expires_at)? })
            }
            Reply::Mismatch { expires_at } => {
                Ok(ExtendResult::Mismatch { expires_at: time(expires_at)? })
            }
            Reply::NotHeld { is_expired, now } => {
                self.clock.learn(answer.sent, time(now)?);
                Ok(ExtendResult::NotHeld(reason(is_expired)))
            }
            _ => Err(unintelligible()),
        }
    }

    fn doubtful(&self) -> std::sync::MutexGuard<'_, HashMap<LockId, Unsettled>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if an earlier sending of its acquire may still arrive.
    pub(super) fn is_in_doubt(&self, id: LockId) -> Option<Unsettled> {
        self.doubtful().remove(&id)
    }

    pub(super) async fn is_locked(&self, key: Key) -> Result<bool, LockError> {
        match self.wire.ask(Request::IsLocked { key }, Instant::now() + BOUND).await? {
            Reply::Is(is_locked) => Ok(is_locked),
            _ => Err(unintelligible()),
        }
    }

    pub(super) async fn lookup(&self, by: LookupBy) -> Result<Option<Record>, LockError> {
        let asked = match by {
            LookupBy::Key(key) => Request::ByKey { key },
            LookupBy::LockId(id) => Request::ById { id },
        };
        match self.wire.ask(asked, Instant::now() + BOUND).await? {
            Reply::Found(found) => Ok(found),
            _ => Err(unintelligible()),
        }
    }
}
