//! A twin by itself, on the machine's time: to be compared with the real server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use syncguard_core::{
    AcquireRequest, AcquireResult, Acquired, BackendCapabilities, ClientState, Contention,
    ExtendRequest, ExtendResult, Fence, Inventory, IsLockedRequest, KeyWatch, LockBackend,
    LockError, LockInfo, LookupBy, LookupRequest, NotHeld, ReleaseRequest, ReleaseResult,
    TimeAuthority, Timestamp, WatchRequest,
};
use syncguard_history::Random;

use crate::protocol::{Record, Reply, Request};
use crate::store::{Redis, Server};

/// A store's twin, without a network: each request is carried out to its end at once.
#[derive(Clone)]
pub struct Alone(Arc<Inner>);

struct Inner {
    server: Mutex<(Server, Random)>,
    state: ClientState,
    name: &'static str,
}

impl std::fmt::Debug for Alone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alone").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Alone {
    /// The twin of the Redis scripts.
    #[must_use]
    pub fn redis() -> Self {
        let server = Server::Atomic { store: Box::new(Redis::new(None)), is_clustered: false };
        Self::new(server, "twin of redis")
    }

    /// The twin of the PostgreSQL statements.
    #[must_use]
    pub fn postgres() -> Self {
        Self::new(Server::Postgres(Box::default()), "twin of postgres")
    }

    fn new(server: Server, name: &'static str) -> Self {
        let server = Mutex::new((server, Random::new(1)));
        Self(Arc::new(Inner { server, state: ClientState::default(), name }))
    }

    fn ask(&self, request: &Request) -> Reply {
        let mut locked = self.0.server.lock().unwrap_or_else(PoisonError::into_inner);
        let (server, random) = &mut *locked;
        let Some(statement) = server.begins(0, 0, request.clone()) else {
            return server.carry_out(now(), request).0;
        };
        // Nobody else is there to be waited for.
        loop {
            let (pause, done, _) = server.goes(statement, now(), random);
            if let Some((_, _, reply)) = done.replies.into_iter().next() {
                return reply;
            }
            if pause.is_none() {
                return Reply::Cancelled;
            }
        }
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn time(millis: u64) -> Result<Timestamp, LockError> {
    Timestamp::from_millis(millis)
}

fn reason(is_expired: bool) -> NotHeld {
    if is_expired { NotHeld::Expired } else { NotHeld::NotFound }
}

fn unintelligible() -> LockError {
    LockError::internal("an answer to another question")
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for Alone {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let (id, ttl, deadline) = (request.lock_id, request.ttl.as_millis(), u64::MAX);
        match self.ask(&Request::Acquire { key: request.key, id, ttl, deadline }) {
            Reply::Granted { fence, expires_at, .. } => {
                let lock = Acquired::new(id, time(expires_at)?, Fence::new(fence)?);
                Ok(AcquireResult::Acquired(lock))
            }
            _ => Ok(AcquireResult::Locked(Contention::unknown())),
        }
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        match self.ask(&Request::Release { id: request.lock_id, deadline: u64::MAX }) {
            Reply::Released => Ok(ReleaseResult::Released),
            Reply::NotHeld { is_expired, .. } => Ok(ReleaseResult::NotHeld(reason(is_expired))),
            _ => Err(unintelligible()),
        }
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let expected = request.expected_expiry.map(Timestamp::as_millis);
        let (id, ttl, deadline) = (request.lock_id, request.ttl.as_millis(), u64::MAX);
        match self.ask(&Request::Extend { id, ttl, expected, deadline }) {
            Reply::Extended { expires_at } => {
                Ok(ExtendResult::Extended { expires_at: time(expires_at)? })
            }
            Reply::Mismatch { expires_at } => {
                Ok(ExtendResult::Mismatch { expires_at: time(expires_at)? })
            }
            Reply::NotHeld { is_expired, .. } => Ok(ExtendResult::NotHeld(reason(is_expired))),
            _ => Err(unintelligible()),
        }
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        Ok(matches!(self.ask(&Request::IsLocked { key: request.key }), Reply::Is(true)))
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let asked = match request.by {
            LookupBy::Key(key) => Request::ByKey { key },
            LookupBy::LockId(id) => Request::ById { id },
        };
        let Reply::Found(Some(found)) = self.ask(&asked) else { return Ok(None) };
        let Record { key, id, fence, acquired_at, expires_at } = found;
        let fence = Fence::new(fence)?;
        Ok(Some(LockInfo::new(key, id, time(acquired_at)?, time(expires_at)?, fence)))
    }

    async fn watch(&self, _: WatchRequest) -> Option<KeyWatch> {
        None
    }

    fn inventory(&self) -> Option<Inventory> {
        None
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>(self.0.name, TimeAuthority::Server)
    }

    fn client_state(&self) -> &ClientState {
        &self.0.state
    }
}
