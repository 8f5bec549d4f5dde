//! A backend on the client's side of the network, like the real ones: with deadlines, clean-up and the same helpers
//! of the library.

mod counters;
mod firestore;
mod served;
mod settled;
mod wire;

use std::sync::Arc;

use syncguard_core::authoring::cancel::{self, Settle, Settled, Unsettled};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ClientState, ExtendRequest,
    IsLockedRequest, KeyWatch, LookupBy, LookupRequest, ReleaseRequest, TimeAuthority,
    WatchRequest,
};
use syncguard_core::inventory::Inventory;
use syncguard_core::{
    ErrorCode, ExtendResult, Fence, LockBackend, LockError, LockInfo, NotHeld, ReleaseResult,
    Timestamp,
};
use tokio::time::Instant;

use self::firestore::Firestore;
use self::served::Served;
use self::wire::Wire;
use crate::flaw::Flaw;
use crate::link::{BOUND, Link};
use crate::protocol::{Record, Reply, Request};
use crate::store::Server;

/// The backend that it is a twin of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Statements on a few connections, which are resent if a connection is lost.
    Postgres,
    /// Documents, which the client reads, and writes if they are as it has read them.
    Firestore,
}

/// A process's backend. Clones share it.
#[derive(Clone)]
pub(crate) struct Twin(Arc<Inner>);

struct Inner {
    ways: Ways,
    state: ClientState,
    name: &'static str,
}

enum Ways {
    /// The server decides.
    Served(Served),
    Firestore(Firestore),
}

impl Twin {
    pub(crate) fn new(link: &Arc<Link>, kind: Kind) -> Self {
        let flaw = link.hub().flaw;
        Self::over(Wire::new(Arc::clone(link)), kind, flaw, "simulated")
    }

    /// A backend with a server of its own, without a network, on the machine's time.
    pub(crate) fn alone(server: Server, kind: Kind, name: &'static str) -> Self {
        Self::over(Wire::direct(server), kind, None, name)
    }

    fn over(mut wire: Wire, kind: Kind, flaw: Option<Flaw>, name: &'static str) -> Self {
        wire.cancels = kind == Kind::Postgres;
        let ways = match kind {
            Kind::Firestore => Ways::Firestore(Firestore::new(wire, flaw)),
            _ => Ways::Served(Served::new(wire, kind, flaw)),
        };
        Self(Arc::new(Inner { ways, state: ClientState::default(), name }))
    }

    /// Holds the next write back; only for a backend that is [alone](Self::alone).
    pub(crate) fn hold_next(&self) {
        self.0.wire().hold_next();
    }

    /// Carries out the held writes. Returns true if there were any.
    pub(crate) fn deliver(&self) -> bool {
        self.0.wire().deliver()
    }
}

impl Inner {
    fn wire(&self) -> &Wire {
        match &self.ways {
            Ways::Served(served) => &served.wire,
            Ways::Firestore(firestore) => &firestore.wire,
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for Twin {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let inner = Arc::clone(&self.0);
        cancel::finish_acquire_settled(self, request, |request, caller| async move {
            match &inner.ways {
                Ways::Served(served) => served.acquire(&request, &caller).await,
                Ways::Firestore(firestore) => firestore.acquire(&request, &caller).await,
            }
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let (twin, cancellation) = (self.clone(), request.cancellation.clone());
        cancel::finish(cancellation.as_ref(), async move {
            let served = match &twin.0.ways {
                Ways::Served(served) => served,
                Ways::Firestore(firestore) => return firestore.release(request.lock_id).await,
            };
            let (result, _) = served.release(request.lock_id).await?;
            if let Some(acquire) = served.is_in_doubt(request.lock_id) {
                cancel::settle_later(&twin, acquire);
            }
            Ok(result)
        })
        .await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let (inner, cancellation) = (Arc::clone(&self.0), request.cancellation.clone());
        cancel::finish(cancellation.as_ref(), async move {
            match &inner.ways {
                Ways::Served(served) => served.extend(&request).await,
                Ways::Firestore(firestore) => firestore.extend(&request).await,
            }
        })
        .await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let read = async {
            match &self.0.ways {
                Ways::Served(served) => served.is_locked(request.key).await,
                Ways::Firestore(firestore) => Ok(firestore.by_key(request.key).await?.is_some()),
            }
        };
        cancel::read(request.cancellation.as_ref(), read).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let read = async {
            match (&self.0.ways, request.by) {
                (Ways::Served(served), by) => served.lookup(by).await,
                (Ways::Firestore(firestore), LookupBy::Key(key)) => firestore.by_key(key).await,
                (Ways::Firestore(firestore), LookupBy::LockId(id)) => firestore.by_id(id).await,
            }
        };
        let found = cancel::read(request.cancellation.as_ref(), read).await?;
        found.map(info).transpose()
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        let asked = Request::Watch { key: request.key };
        match self.0.wire().ask(asked, Instant::now() + BOUND).await {
            Ok(Reply::Watching(watch)) => Some(watch),
            _ => None,
        }
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.clone()))
    }

    fn capabilities(&self) -> BackendCapabilities {
        let authority = match self.0.ways {
            Ways::Served(_) => TimeAuthority::Server,
            Ways::Firestore(_) => TimeAuthority::Client,
        };
        BackendCapabilities::new::<Fence>(self.0.name, authority).with_fence_windows()
    }

    fn client_state(&self) -> &ClientState {
        &self.0.state
    }
}

impl Settle for Twin {
    async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        match &self.0.ways {
            Ways::Served(served) => served.settle(acquire).await,
            Ways::Firestore(firestore) => firestore.settle(acquire).await,
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
