//! A backend on the simulated network, as the real ones are: deadlines, clean-up and all, through the same
//! helpers of the library.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use syncguard_core::authoring::StoreClock;
use syncguard_core::authoring::cancel::{self, Caller, Settle, Settled, Unsettled};
use syncguard_core::{
    AcquireRequest, AcquireResult, Acquired, BackendCapabilities, ClientState, Contention,
    ErrorCode, ExtendRequest, ExtendResult, Fence, Inventory, IsLockedRequest, KeyWatch,
    LockBackend, LockError, LockId, LockInfo, LookupBy, LookupRequest, NotHeld, ReleaseRequest,
    ReleaseResult, TimeAuthority, Timestamp, WatchRequest,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::flaw::Flaw;
use crate::hub::{Net, Outcome};
use crate::protocol::{Record, Reply, Request};

/// For how long an answer is waited for.
pub(crate) const BOUND: Duration = Duration::from_millis(300);

/// Which library's ways it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One step at the server, and nothing is sent again. `true`: the driver may send to two nodes.
    Redis { is_clustered: bool },
    /// Statements on a few connections; sent again where one is lost.
    Postgres,
}

/// A process's backend. Clones are the same.
#[derive(Clone)]
pub(crate) struct Twin(Arc<Inner>);

struct Inner {
    net: Net,
    member: usize,
    kind: Kind,
    /// When the process's clock was made, by both clocks.
    started: (Instant, u64),
    clock: StoreClock,
    state: ClientState,
    /// Connections, and those of them that contenders may take.
    pool: Arc<Semaphore>,
    contenders: Arc<Semaphore>,
    /// Locks whose acquire was sent more than once.
    doubtful: Mutex<HashMap<LockId, Unsettled>>,
    flaw: Option<Flaw>,
}

struct Answer {
    reply: Reply,
    sent: Instant,
    is_doubled: bool,
    deadline: Timestamp,
    /// An earlier sending was not answered.
    lost: Option<LockError>,
}

/// Who wants a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    Contender,
    Holder,
}

impl Twin {
    pub(crate) fn new(net: Net, member: usize, kind: Kind, at: u64) -> Self {
        let flaw = net.hub().flaw;
        Self(Arc::new(Inner {
            net,
            member,
            kind,
            started: (Instant::now(), at),
            clock: StoreClock::new(),
            state: ClientState::default(),
            pool: Arc::new(Semaphore::new(4)),
            contenders: Arc::new(Semaphore::new(3)),
            doubtful: Mutex::default(),
            flaw,
        }))
    }

    /// Counts a register up, in a store that fences.
    pub(crate) async fn ask_register(&self, request: Request) -> Result<Reply, LockError> {
        self.0.ask(request, Instant::now() + BOUND).await
    }
}

impl Inner {
    fn now(&self) -> u64 {
        let passed = self.started.0.elapsed().as_micros();
        self.started.1 + u64::try_from(passed).unwrap_or(u64::MAX)
    }

    /// A request and its answer, until then.
    async fn once(&self, request: Request, until: Instant) -> Result<(Reply, bool), LockError> {
        let is_write = request.deadline().is_some();
        let in_doubt =
            |error: LockError| if is_write { error.with_unknown_outcome() } else { error };
        let (ticket, answer) = self.net.send(self.member, self.now(), request);
        match timeout_at(until, answer).await {
            Ok(Ok(Outcome::Answered(Reply::Cancelled, _))) => {
                Err(LockError::new(ErrorCode::NetworkTimeout, "the server has cancelled it"))
            }
            Ok(Ok(Outcome::Answered(reply, is_doubled))) => Ok((reply, is_doubled)),
            Ok(Ok(Outcome::Refused)) => Err(unavailable()),
            Ok(Ok(Outcome::Cut) | Err(_)) => Err(in_doubt(unavailable())),
            Err(_) => {
                if self.kind == Kind::Postgres {
                    self.net.cancel(self.member, self.now(), ticket.call);
                }
                Err(in_doubt(LockError::new(ErrorCode::NetworkTimeout, "no answer")))
            }
        }
    }

    /// A read.
    async fn ask(&self, request: Request, until: Instant) -> Result<Reply, LockError> {
        Ok(self.once(request, until).await?.0)
    }

    async fn ask_time(&self, until: Instant) -> Result<(), LockError> {
        let sent = Instant::now();
        if let Reply::Time { now } = self.ask(Request::Time, until).await? {
            self.clock.learn(sent, time(now)?);
        }
        Ok(())
    }

    /// As `Inner::write` in inner.rs of Redis, and `query` in pool.rs of PostgreSQL.
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
            Kind::Redis { .. } => None,
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
            match self.once(request(deadline.as_millis()), until).await {
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
                    // Once more, on another connection.
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

    async fn connection(
        &self,
        of: &Arc<Semaphore>,
        until: Instant,
    ) -> Result<tokio::sync::OwnedSemaphorePermit, LockError> {
        let waited = timeout_at(until, Arc::clone(of).acquire_owned()).await;
        waited.ok().and_then(Result::ok).ok_or_else(unavailable)
    }

    async fn acquire(
        &self,
        request: &AcquireRequest,
        caller: &Caller,
    ) -> Result<AcquireResult, LockError> {
        let make = |deadline| Request::Acquire {
            key: request.key.clone(),
            id: request.lock_id,
            ttl: request.ttl.as_millis(),
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
            // Nobody knows what the other one has done.
            return Err(unavailable().with_unknown_outcome());
        }
        match (answer.reply, lost) {
            (Reply::Granted { fence, expires_at, is_fresh }, lost) => {
                if is_fresh {
                    let granted_at = expires_at.saturating_sub(request.ttl.as_millis());
                    self.clock.learn(answer.sent, time(granted_at)?);
                }
                if lost.is_some() {
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
            (_, None) => Ok(AcquireResult::Locked(Contention::unknown())),
        }
    }

    async fn release(&self, id: LockId) -> Result<(ReleaseResult, Option<u64>), LockError> {
        let make = |deadline| Request::Release { id, deadline };
        let answer = self.write(Lane::Holder, &Caller::new(None), make).await?;
        match answer.reply {
            Reply::Released => Ok((ReleaseResult::Released, None)),
            Reply::NotHeld { is_expired, now } => {
                self.clock.learn(answer.sent, time(now)?);
                // It may be gone because the other sending has released it.
                match answer.lost.or_else(|| answer.is_doubled.then(unavailable)) {
                    Some(lost) if !is_expired => Err(lost.with_unknown_outcome()),
                    _ => Ok((ReleaseResult::NotHeld(reason(is_expired)), Some(now))),
                }
            }
            _ => Err(unintelligible()),
        }
    }

    async fn extend(&self, request: &ExtendRequest) -> Result<ExtendResult, LockError> {
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

    /// As settle.rs of Redis.
    async fn settle_atomic(
        &self,
        acquire: &Unsettled,
        deadline: Timestamp,
    ) -> Result<Settled, LockError> {
        let (result, now) = self.release(acquire.lock_id).await?;
        let is_certain = if result.is_released() {
            self.kind == Kind::Redis { is_clustered: false }
        } else {
            now.is_some_and(|now| now > deadline.as_millis())
                || self.flaw == Some(Flaw::SettledTooSoon)
        };
        Ok(if is_certain { Settled::Done } else { Settled::NotYet(self.clock.passes_in(deadline)) })
    }

    /// As settle.rs of PostgreSQL: two looks.
    async fn settle_statements(
        &self,
        acquire: &Unsettled,
        deadline: Timestamp,
    ) -> Result<Settled, LockError> {
        const BUSY: Duration = Duration::from_millis(250);
        let (is_alone, now) = self.look(acquire).await?;
        if self.flaw == Some(Flaw::SettledTooSoon) {
            return Ok(Settled::Done);
        }
        if !is_alone {
            return Ok(Settled::NotYet(BUSY));
        }
        if now <= deadline.as_millis() {
            return Ok(Settled::NotYet(self.clock.passes_in(deadline)));
        }
        self.look(acquire).await?;
        Ok(Settled::Done)
    }

    async fn look(&self, acquire: &Unsettled) -> Result<(bool, u64), LockError> {
        let (sent, until) = (Instant::now(), Instant::now() + BOUND);
        let _connection = self.connection(&self.pool, until).await?;
        let request = Request::Settle { key: acquire.key.clone(), id: acquire.lock_id };
        match self.ask(request, until).await? {
            Reply::Look { is_alone, now } => {
                self.clock.learn(sent, time(now)?);
                Ok((is_alone, now))
            }
            _ => Err(unintelligible()),
        }
    }

    fn doubtful(&self) -> std::sync::MutexGuard<'_, HashMap<LockId, Unsettled>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for Twin {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let inner = Arc::clone(&self.0);
        cancel::finish_acquire_settled(self, request, |request, caller| async move {
            inner.acquire(&request, &caller).await
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let (twin, cancellation) = (self.clone(), request.cancellation.clone());
        cancel::finish(cancellation.as_ref(), async move {
            let (result, _) = twin.0.release(request.lock_id).await?;
            let unsettled = twin.0.doubtful().remove(&request.lock_id);
            if let Some(acquire) = unsettled {
                cancel::settle_later(&twin, acquire);
            }
            Ok(result)
        })
        .await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let (inner, cancellation) = (Arc::clone(&self.0), request.cancellation.clone());
        cancel::finish(cancellation.as_ref(), async move { inner.extend(&request).await }).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let read = self.0.ask(Request::IsLocked { key: request.key }, Instant::now() + BOUND);
        match cancel::read(request.cancellation.as_ref(), read).await? {
            Reply::Is(is_locked) => Ok(is_locked),
            _ => Err(unintelligible()),
        }
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let asked = match request.by {
            LookupBy::Key(key) => Request::ByKey { key },
            LookupBy::LockId(id) => Request::ById { id },
        };
        let read = self.0.ask(asked, Instant::now() + BOUND);
        match cancel::read(request.cancellation.as_ref(), read).await? {
            Reply::Found(found) => found.map(info).transpose(),
            _ => Err(unintelligible()),
        }
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        let asked = Request::Watch { key: request.key };
        match self.0.ask(asked, Instant::now() + BOUND).await {
            Ok(Reply::Watching(watch)) => Some(watch),
            _ => None,
        }
    }

    fn inventory(&self) -> Option<Inventory> {
        None
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("simulated", TimeAuthority::Server)
    }

    fn client_state(&self) -> &ClientState {
        &self.0.state
    }
}

impl Settle for Twin {
    async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        let Some(deadline) = acquire.deadline else { return Ok(Settled::Done) };
        match self.0.kind {
            Kind::Redis { .. } => self.0.settle_atomic(acquire, deadline).await,
            Kind::Postgres => self.0.settle_statements(acquire, deadline).await,
        }
    }
}

fn info(record: Record) -> Result<LockInfo, LockError> {
    let Record { key, id, fence, acquired_at, expires_at } = record;
    Ok(LockInfo::new(key, id, time(acquired_at)?, time(expires_at)?, Fence::new(fence)?))
}

fn time(millis: u64) -> Result<Timestamp, LockError> {
    Timestamp::from_millis(millis)
}

fn reason(is_expired: bool) -> NotHeld {
    if is_expired { NotHeld::Expired } else { NotHeld::NotFound }
}

fn in_doubt(error: LockError, lost: Option<&LockError>) -> LockError {
    if lost.is_some() { error.with_unknown_outcome() } else { error }
}

fn unavailable() -> LockError {
    LockError::new(ErrorCode::ServiceUnavailable, "the connection was lost")
}

fn unintelligible() -> LockError {
    LockError::internal("an answer to another question")
}
