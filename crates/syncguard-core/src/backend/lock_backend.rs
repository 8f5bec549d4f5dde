//! The trait of a backend.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::client::ClientState;
use crate::contract::capabilities::BackendCapabilities;
use crate::contract::health::Health;
use crate::contract::info::LockInfo;
use crate::contract::key_watch::KeyWatch;
use crate::contract::request::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest, WatchRequest,
};
use crate::contract::response::{AcquireResult, ExtendResult, ReleaseResult};
use crate::contract::signal_status::SignalStatus;
use crate::inventory::handle::Inventory;
use crate::rt;
use crate::value::{FenceToken, Key, LockError};

/// A store that can hold locks. An author of a backend writes this trait, and no more.
///
/// Users call [`lock`](crate::lock()), [`acquire`](crate::acquire()) or [`Locker`](crate::Locker) on top of it. Each method
/// is one attempt: retries, guards and renewal live outside, so a decorator that forwards these methods
/// forwards everything.
///
/// A backend is a cheap handle: `Clone` shares the connection, and an operation may outlive its
/// caller by keeping a clone. Each method states the rules that a backend must keep. The
/// `syncguard-conformance` crate, which any backend can run, proves them.
///
/// # Cancel safety
///
/// A request may carry a cancellation token. When the token fires, the operation answers `Aborted`
/// at once, and is never sent if it was not sent before. Dropping a future is cancellation too. An
/// operation that was sent before it was cancelled, in either way, runs to its end in the background;
/// [`cancel::finish`](crate::authoring::cancel::finish) and [`cancel::finish_acquire`](crate::authoring::cancel::finish_acquire) do that for a backend.
pub trait LockBackend: Clone + Send + Sync + 'static {
    /// [`Fence`](crate::Fence) if every acquisition carries a fencing token, otherwise [`NoFence`](crate::contract::NoFence).
    type Fence: FenceToken;

    /// Takes the lock of a key if it is free, in one atomic step.
    ///
    /// The lock is free if no lock is stored or the stored lock is not [live](crate::contract::is_live). On success
    /// the store keeps together the lock id, the expiry (the store's time now plus the TTL) and a fence above every
    /// earlier fence of this key. If the live lock already has the request's lock id,
    /// the answer is that lock, unchanged: so a backend that has lost a connection may send an acquire again within
    /// one call. Contention writes nothing and uses up no fence.
    ///
    /// A backend that [supports fence windows](BackendCapabilities::supports_fence_windows) checks a request's
    /// [window](AcquireRequest::with_fence_window) in the same step, and in this order: a live lock with the request's
    /// lock id is the answer; a counter at the window's limit is [`Taken`](crate::authoring::recipes::Refusal::Taken), and a time
    /// of the store before the window's is [`TooEarly`](crate::authoring::recipes::Refusal::TooEarly), whether the key is locked or
    /// not; a live lock of another id is `Locked`. The store writes nothing in these cases.
    ///
    /// A request that reaches the store after its caller got an error takes no lock: see
    /// [`cancel`](crate::authoring::cancel).
    ///
    /// # Errors
    ///
    /// - `Internal` if the fence counter is exhausted, before anything is written, or if the stored
    ///   record is corrupt; a corrupt record never counts as free.
    /// - `InvalidArgument` if another key's lock has the request's lock id and the store can tell.
    /// - `Aborted` if the request's token fires; the lock is not held afterwards.
    /// - The store's failures, with [`is_outcome_unknown`](LockError::is_outcome_unknown) if the
    ///   store may have granted the lock; the backend then releases it in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no lock behind: an acquire that was sent is finished in the
    /// background, and released if it was granted.
    fn acquire(
        &self,
        request: AcquireRequest,
    ) -> impl Future<Output = Result<AcquireResult<Self::Fence>, LockError>> + Send;

    /// Frees the lock with this id, if it is live, in one atomic step.
    ///
    /// The lock id alone identifies the lock; no other lock is touched. A [key
    /// hint](ReleaseRequest::with_key_hint) may say where to look first, here as in `extend` and `lookup`; it
    /// changes no answer, and a backend may ignore it. Of several releases of one lock
    /// exactly one answers [`Released`](ReleaseResult::Released). Fence counters stay.
    ///
    /// A backend that [supports fence windows](BackendCapabilities::supports_fence_windows) also raises the counter that
    /// a request [names](ReleaseRequest::with_counter_at_least), in the same step, if it frees the lock. If the lock has
    /// another key than the request says, no counter is raised.
    ///
    /// # Errors
    ///
    /// `Aborted` if the request's token fires, `Internal` for a corrupt record, and the store's failures.
    ///
    /// # Cancel safety
    ///
    /// A release that was sent takes effect even if its future is dropped.
    fn release(
        &self,
        request: ReleaseRequest,
    ) -> impl Future<Output = Result<ReleaseResult, LockError>> + Send;

    /// Lets the lock with this id live for the request's TTL from now, if it is live, in one atomic step.
    ///
    /// The TTL replaces the rest of the lock's life, even if that shortens it. A lock that is not live is
    /// never revived. With an [expected expiry](ExtendRequest::with_expected_expiry), a lock that
    /// expires at another time stays as it is.
    ///
    /// Every extend changes the expiry: if the new expiry equals the old one, the lock lives one
    /// millisecond longer. So an extend that another extend has overtaken never finds the expiry that it expects.
    ///
    /// # Errors
    ///
    /// `Aborted` if the request's token fires, `Internal` for a corrupt record, and the store's failures.
    ///
    /// # Cancel safety
    ///
    /// An extend that was sent takes effect even if its future is dropped.
    fn extend(
        &self,
        request: ExtendRequest,
    ) -> impl Future<Output = Result<ExtendResult, LockError>> + Send;

    /// True if a key's lock is live. It changes nothing that a caller can see, and says nothing about the holder.
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

    /// The details of a live lock, by key or by lock id; `None` if there is no live lock.
    ///
    /// A lookup is for people and dashboards. A program must not decide by it whether to go on: release and extend
    /// check ownership themselves, atomically.
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

    /// Subscribes to signals for the lock of a key; `None` if the store cannot send them, or cannot at the moment.
    ///
    /// The answer comes after the store has confirmed the subscription, so no release after the
    /// answer is missed. The watch is signalled at least for releases by clients of this library;
    /// needless signals do no harm. The head of the waiters of this process calls this, for a key that
    /// is held.
    ///
    /// If the answer is `None`, waiters poll. So this method never fails: if the store refuses or the
    /// connection is lost, it answers `None`, and logs that once.
    /// A [`SignalHub`](crate::authoring::signals::SignalHub) does all this for a backend.
    ///
    /// The default is `None`.
    ///
    /// # Cancel safety
    ///
    /// After the future or the watch is dropped, nothing stays in the store for longer than the connection
    /// lives.
    fn watch(&self, request: WatchRequest) -> impl Future<Output = Option<KeyWatch>> + Send {
        let _ = request;
        std::future::ready(None)
    }

    /// Asks how good the store is for locks: whether it answers, keeps what it has confirmed, gives signals, and which hazards it
    /// has. Never fails: a store that does not answer is a part of the report. Takes as long as a few operations; on etcd some
    /// seconds, for the clocks of the members.
    ///
    /// The default is [`basic_health`](crate::authoring::basic_health), which has no findings.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    fn health(&self) -> impl Future<Output = Health> + Send {
        basic_health(self, SignalStatus::of_watch)
    }

    /// The inventory of all locks of this store; `None` if the backend has none. Never fails, never blocks.
    ///
    /// A backend that implements [`LockInventory`](crate::authoring::LockInventory) answers
    /// `Some(Inventory::new(self.clone()))`, and a decorator passes on the inventory of the inner backend. A decorator
    /// that changes keys must not, because the inventory lists the changed keys.
    ///
    /// The default is `None`.
    fn inventory(&self) -> Option<Inventory<Self::Fence>> {
        None
    }

    /// The capabilities of this backend. Never fails, never blocks.
    fn capabilities(&self) -> BackendCapabilities;

    /// The state that the clones of this backend share in this process. A decorator passes on the state of the inner
    /// backend, or a state made from it.
    ///
    /// The state has the queues in which the callers of this process wait, by key. So two backends must not
    /// share a state unless their keys mean the same locks. A backend without options for the state keeps a
    /// [`ClientState::default`], and a decorator that changes keys makes a state
    /// [with its own queues](ClientState::with_own_queues).
    fn client_state(&self) -> &ClientState;
}

/// A shared backend is a backend.
#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Arc<B> {
    type Fence = B::Fence;

    crate::forward!(*: acquire, release, extend, is_locked, lookup);
    crate::forward!(*: watch, health, inventory, capabilities, client_state);
}

/// The key that health checks ask for, and that `syncguard doctor` locks.
const KEY: &str = "syncguard-doctor";

/// The longest time to open the watch. A backend has shorter limits of its own, after which it knows whether signals fail.
const WATCH: Duration = Duration::from_secs(15);

/// For authors of backends: the beginning of [`LockBackend::health`]. Asks whether a key is locked, and begins a watch.
///
/// `signals` gives the state of signals while the watch lives; its argument says whether there is a watch.
///
/// # Cancel safety
///
/// Safe: it only reads.
pub async fn basic_health<B: LockBackend>(
    backend: &B,
    signals: impl FnOnce(bool) -> SignalStatus + Send,
) -> Health {
    match ask(backend).await {
        Ok(key) => {
            let watch = rt::within(WATCH, backend.watch(WatchRequest::new(key))).await.flatten();
            Health::new(Ok(()), signals(watch.is_some()))
        }
        Err(error) => Health::new(Err(error), SignalStatus::Unused),
    }
}

async fn ask<B: LockBackend>(backend: &B) -> Result<Key, LockError> {
    let key = Key::new(KEY)?;
    backend.is_locked(IsLockedRequest::new(key.clone())?).await?;
    Ok(key)
}
