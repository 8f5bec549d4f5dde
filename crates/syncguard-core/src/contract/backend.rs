//! The contract between SyncGuard and a store.

use std::future::Future;
use std::sync::Arc;

use crate::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ClientState, ExtendRequest, FenceToken,
    IsLockedRequest, KeyWatch, LookupRequest, ReleaseRequest, WatchRequest,
};
use crate::inventory::Inventory;
use crate::{ExtendResult, LockError, LockInfo, ReleaseResult};

/// A store that can hold locks: what an author of a backend writes, and no more.
///
/// Users call [`lock`](crate::lock()), [`acquire`](crate::acquire()) or [`Locker`](crate::Locker) on top of it. Each method
/// is one attempt: retrying, guards and renewal live outside, so that a decorator forwards
/// everything by forwarding these methods.
///
/// A backend is a cheap handle: `Clone` shares the connection, and an operation may outlive its
/// caller by keeping a clone. The rules a backend must keep are stated method by method and proven
/// by the `syncguard-conformance` crate, which any backend can run.
///
/// # Cancel safety
///
/// Every request may carry a cancellation token. Once it has fired, an operation answers `Aborted`
/// at once, and one that was not sent yet is never sent. Dropping a future is cancellation too. An
/// operation that was sent and then cancelled, either way, runs to its end in the background;
/// [`cancel::finish`](crate::authoring::cancel::finish) and [`cancel::finish_acquire`](crate::authoring::cancel::finish_acquire) do that for a backend.
pub trait LockBackend: Clone + Send + Sync + 'static {
    /// [`Fence`](crate::Fence) if every acquisition carries a fencing token, else [`NoFence`](crate::contract::NoFence).
    type Fence: FenceToken;

    /// Takes the lock of a key if it is free, in one atomic step.
    ///
    /// The lock is free if there is none or the stored one is not [live](crate::contract::is_live). On success
    /// the lock id, the expiry (the store's time now plus the TTL) and a fence above every earlier
    /// one of this key are stored together. If the live lock already carries the request's lock id,
    /// the answer is that lock, unchanged: so a backend may send an acquire again within one call when it
    /// has lost a connection. Contention writes nothing and uses up no fence.
    ///
    /// A request that reaches the store after its caller was told of a failure takes no lock: see
    /// [`cancel`](crate::authoring::cancel).
    ///
    /// # Errors
    ///
    /// - `Internal` if the fence counter is exhausted, before anything is written, or if the stored
    ///   record is corrupt, which never counts as free.
    /// - `InvalidArgument` if another key's lock has the request's lock id and the store can tell.
    /// - `Aborted` if the request's token fires; the lock is not held afterwards.
    /// - The store's failures, with [`is_outcome_unknown`](LockError::is_outcome_unknown) where the
    ///   store may have granted the lock; the backend then releases it in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no lock behind: an acquire already sent is finished in the
    /// background and released if it was granted.
    fn acquire(
        &self,
        request: AcquireRequest,
    ) -> impl Future<Output = Result<AcquireResult<Self::Fence>, LockError>> + Send;

    /// Frees the lock with this id, if it is live, in one atomic step.
    ///
    /// Finds the lock by its id alone, and touches no other lock. A [key
    /// hint](ReleaseRequest::with_key_hint) may say where to look first, here as in `extend` and `lookup`; it
    /// changes no answer, and a backend may ignore it. Of several releases of one lock
    /// exactly one answers [`Released`](ReleaseResult::Released). Fence counters stay.
    ///
    /// # Errors
    ///
    /// `Aborted` if the request's token fires, `Internal` for a corrupt record, and the store's failures.
    ///
    /// # Cancel safety
    ///
    /// A release that was sent takes effect although its future is dropped.
    fn release(
        &self,
        request: ReleaseRequest,
    ) -> impl Future<Output = Result<ReleaseResult, LockError>> + Send;

    /// Lets the lock with this id live for the request's TTL from now, if it is live, in one atomic step.
    ///
    /// The TTL replaces what was left, also where that shortens it. A lock that is not live is
    /// never revived. With an [expected expiry](ExtendRequest::with_expected_expiry), a lock that
    /// expires at another time stays as it is.
    ///
    /// Every extend changes the expiry: where it comes to the expiry that the lock has already, the lock lives one
    /// millisecond longer. So an extend that was overtaken by another one never finds the expiry that it expects.
    ///
    /// # Errors
    ///
    /// `Aborted` if the request's token fires, `Internal` for a corrupt record, and the store's failures.
    ///
    /// # Cancel safety
    ///
    /// An extend that was sent takes effect although its future is dropped.
    fn extend(
        &self,
        request: ExtendRequest,
    ) -> impl Future<Output = Result<ExtendResult, LockError>> + Send;

    /// Whether a key's lock is live. Changes nothing a caller can see, and says nothing of the holder.
    ///
    /// # Errors
    ///
    /// `Aborted` if the request's token fires, `Internal` for a corrupt record, and the store's failures.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    fn is_locked(
        &self,
        request: IsLockedRequest,
    ) -> impl Future<Output = Result<bool, LockError>> + Send;

    /// The details of a live lock, by key or by lock id; `None` if there is no live one.
    ///
    /// For people and dashboards. Never decide by it whether to go on: release and extend check
    /// ownership themselves, atomically.
    ///
    /// # Errors
    ///
    /// `Aborted` if the request's token fires, `Internal` for a corrupt record, and the store's failures.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    fn lookup(
        &self,
        request: LookupRequest,
    ) -> impl Future<Output = Result<Option<LockInfo<Self::Fence>>, LockError>> + Send;

    /// Begins to listen for the lock of a key; `None` if this store cannot tell, or not at the moment.
    ///
    /// Answers once the store has confirmed that it will be heard from, so that no release is lost
    /// that comes after the answer. The watch hears at least of releases by clients of this library;
    /// a signal too many does no harm. Called for a key that is held, by the first one that waits for it
    /// in this process.
    ///
    /// Whoever waits goes on by looking at the key from time to time where this answers `None`. So it
    /// never fails: a store that refuses, or a connection that is lost, is `None`, and is said in the
    /// log once. A [`SignalHub`](crate::authoring::signals::SignalHub) does all of that for a backend.
    ///
    /// The default is `None`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, or the watch, leaves nothing behind in the store for longer than the
    /// connection lives.
    fn watch(&self, request: WatchRequest) -> impl Future<Output = Option<KeyWatch>> + Send {
        let _ = request;
        std::future::ready(None)
    }

    /// What can look over all locks of this store; `None` if it cannot. Never fails, never blocks.
    ///
    /// A backend that is a [`LockInventory`](crate::inventory::LockInventory) answers `Some(Inventory::new(self.clone()))`, and a
    /// decorator passes on that of the backend inside. A decorator that changes keys must not: the keys
    /// inside are others.
    ///
    /// The default is `None`.
    fn inventory(&self) -> Option<Inventory<Self::Fence>> {
        None
    }

    /// What this backend can do. Never fails, never blocks.
    fn capabilities(&self) -> BackendCapabilities;

    /// What the clones of this backend share in this process. A decorator passes on that of the backend
    /// inside, or one made from it.
    ///
    /// It holds the lines in which the callers of this process wait, by key. So two backends must not
    /// share one, unless their keys mean the same locks: a backend without options for it keeps a
    /// [`ClientState::default`], and a decorator that changes keys makes one
    /// [with queues of its own](ClientState::with_own_queues).
    fn client_state(&self) -> &ClientState;
}

/// A shared backend is a backend.
#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Arc<B> {
    type Fence = B::Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<B::Fence>, LockError> {
        B::acquire(self, request).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        B::release(self, request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        B::extend(self, request).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        B::is_locked(self, request).await
    }

    async fn lookup(
        &self,
        request: LookupRequest,
    ) -> Result<Option<LockInfo<B::Fence>>, LockError> {
        B::lookup(self, request).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        B::watch(self, request).await
    }

    fn inventory(&self) -> Option<Inventory<B::Fence>> {
        B::inventory(self)
    }

    fn capabilities(&self) -> BackendCapabilities {
        B::capabilities(self)
    }

    fn client_state(&self) -> &ClientState {
        B::client_state(self)
    }
}
