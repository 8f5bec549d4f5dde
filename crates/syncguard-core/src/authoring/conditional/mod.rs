//! For authors of backends on stores whose writes have preconditions: the protocol of locks, once for all of them.
//!
//! Such a store can change a few records as one step, if each of them still has the version that was read. It needs no
//! scripts, no transactions that stay open, and no leases. A [`ConditionalStore`] reads and writes the records of a key,
//! [`Conditional`] is a [`LockBackend`] over it, and the author's backend forwards to that.
//!
//! | file of the store | what it has |
//! |---|---|
//! | `record` | the formats of locks, counters and versions |
//! | `client`, `error` | connections, deadlines, the meaning of each failure as a [`Fault`] |
//! | `store` | the implementation of [`ConditionalStore`] |
//! | `url`, `config`, `backend` | the options, and the constructors |
//! | `signals` | what reports releases, if the store can |
//!
//! # Why this is safe
//!
//! Each operation reads, decides, and sends one [`Change`]. Its conditions cover every record that the decision was based on.
//! A change that was carried out is therefore as good as a transaction.
//!
//! An acquire states lock and counter. Both are needed: a lock that was taken and released since the read is as absent as
//! before, but its fence has been used. So an acquire that arrives late is void once the counter has moved, or the lock was
//! written; a late extend is void once a later extend was confirmed, since each one writes another expiry; and a late
//! release once the lock was extended or released. No write needs a deadline.
//!
//! One case is left: an acquire without an answer, whose change may still arrive on a key that no client touches meanwhile.
//! It is settled: its lock is deleted if it is there, and else the counter is raised by one, unless it has moved since the
//! acquire saw it. So fences grow, but may skip numbers.

mod acquire;
mod extend;
mod inventory;
mod options;
mod records;
mod release;
mod store;

use std::fmt;
use std::sync::Arc;

pub use self::options::ConditionalOptions;
pub use self::records::{
    Change, Counter, Found, LockChange, Parts, Record, Seen, StoredLock, Written,
};
pub use self::store::ConditionalStore;
use super::attempts::{Attempt, Attempts, Retries};
use super::clean_up_guard::is_clearable;
use super::failure::Fault;
use super::recent::Recent;
use crate::backend::{LockBackend, basic_health};
use crate::cancel::{self, ExtendBatches, Settle, Settled, Unsettled};
use crate::client::ClientState;
use crate::contract::capabilities::{BackendCapabilities, TimeAuthority};
use crate::contract::health::Health;
use crate::contract::info::LockInfo;
use crate::contract::key_watch::KeyWatch;
use crate::contract::request::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupBy, LookupRequest, ReleaseRequest,
    WatchRequest,
};
use crate::contract::response::{AcquireResult, ExtendResult, NotHeld, ReleaseResult};
use crate::contract::signal_status::SignalStatus;
use crate::inventory::handle::Inventory;
use crate::value::{Fence, Key, LockError, LockId, Timestamp};

/// The backend over a store whose writes have preconditions. Clones share everything.
pub struct Conditional<S: ConditionalStore>(Arc<Inner<S>>);

/// The store, the memory, and the options.
///
/// An entry of the memory that is gone costs a read, and an outdated one costs a failed condition. Neither gives a wrong
/// answer, because every change states the versions that it is based on.
struct Inner<S: ConditionalStore> {
    store: S,
    /// The locks that this backend has taken or extended, as it wrote them last.
    locks: Recent<LockId, StoredLock<S::Version>>,
    /// The counters of the keys that this backend released last. An acquire takes the entry out, so the key of a lock is never
    /// in here.
    free: Recent<Key, Counter<S::Version>>,
    extends: ExtendBatches,
    options: ConditionalOptions,
    retries: Retries,
    client_state: ClientState,
}

impl<S: ConditionalStore> Conditional<S> {
    /// Sends nothing.
    ///
    /// # Errors
    ///
    /// As [`ClientOptions::client_state`](super::ClientOptions::client_state).
    pub fn new(
        store: S,
        mut options: ConditionalOptions,
        retries: Retries,
    ) -> Result<Self, LockError> {
        Ok(Self(Arc::new(Inner {
            store,
            locks: Recent::new(options.remembered_locks),
            free: Recent::new(options.remembered_locks),
            extends: ExtendBatches::default(),
            retries,
            client_state: std::mem::take(&mut options.client).client_state()?,
            options,
        })))
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// The attempts of one operation.
    #[must_use]
    pub fn attempts(&self) -> Attempts {
        let Inner { options, retries, .. } = &*self.0;
        Attempts::new(*retries, options.request_timeout, options.operation_timeout)
    }

    /// Reads the lock of a key, and the time.
    async fn lock(
        &self,
        key: &Key,
        attempt: &Attempt,
    ) -> Result<Option<(StoredLock<S::Version>, Timestamp)>, Fault> {
        let seen = self.0.store.read(key, Parts::Lock, attempt).await?;
        let Some(held) = seen.lock? else { return Ok(None) };
        Ok(Some((held, self.0.store.time().await?.earliest)))
    }

    /// Carries out a change, or fails with a conflict.
    async fn carry_out(
        &self,
        change: Change<'_, S::Version>,
        attempt: &Attempt,
    ) -> Result<(), Fault> {
        match self.0.store.write(&change, attempt).await? {
            Written::Done(_) => Ok(()),
            Written::Refused(_) => Err(Fault::conflict()),
        }
    }

    /// The reason why the change of a lock was refused, or a conflict if another client has only extended the lock.
    async fn why_refused(&self, now: Seen<S::Version>, lock_id: LockId) -> Result<NotHeld, Fault> {
        self.0.store.judge(now.lock?, lock_id).await?.err().ok_or_else(Fault::conflict)
    }

    /// Deletes an expired lock in the background, if it still has this version. That may fail.
    fn delete_later(&self, held: StoredLock<S::Version>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let backend = self.clone();
        runtime.spawn(async move {
            let attempt = backend.attempts().attempt();
            if let Err(fault) = backend.carry_out(Change::delete(&held), &attempt).await {
                tracing::debug!(error = %fault.error, "an expired lock was not deleted");
            }
        });
    }

    /// Remembers a lock, unless a later version of it is remembered: the answers to two extends at once may arrive in the
    /// other order.
    fn remember(&self, record: Record, version: Option<S::Version>) {
        let Some(version) = version else { return };
        self.0.locks.put_unless(record.lock_id, StoredLock { record, version }, |before, held| {
            before.record.key == held.record.key && before.version > held.version
        });
    }

    /// Takes a remembered lock out of the memory; `None` if the lock has expired by it.
    async fn known_live(&self, lock_id: LockId) -> Result<Option<StoredLock<S::Version>>, Fault> {
        let Some(held) = self.0.locks.take(&lock_id) else { return Ok(None) };
        let now = self.0.store.time().await?.earliest;
        Ok(Some(held).filter(|held| held.record.is_live(now)))
    }

    /// Finds the live lock with this id, for an operation that writes.
    async fn find(
        &self,
        lock_id: LockId,
        hint: Option<&Key>,
        attempt: &Attempt,
    ) -> Result<Result<StoredLock<S::Version>, NotHeld>, Fault> {
        let found = self.0.store.find(lock_id, hint, attempt).await?;
        found.duplicates.into_iter().for_each(|held| self.delete_later(held));
        Ok(found.lock)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: ConditionalStore> LockBackend for Conditional<S> {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        cancel::finish_acquire_settled(self, request, |request, caller| {
            acquire::acquire(self.clone(), request, caller)
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let token = request.cancellation.clone();
        cancel::finish(token.as_ref(), release::release(self.clone(), request)).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        if S::WRITES_EACH {
            let backend = self.clone();
            let extend_many = move |requests| extend::extend_many(backend.clone(), requests);
            if let Some(result) = self.0.extends.extend(0, &request, extend_many).await {
                return result;
            }
        }
        let token = request.cancellation.clone();
        cancel::finish(token.as_ref(), extend::extend(self.clone(), request)).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let read = async {
            let once = async |attempt| {
                let Some((held, now)) = self.lock(&request.key, &attempt).await? else {
                    return Ok(false);
                };
                let is_live = held.record.is_live(now);
                if self.0.options.cleanup_in_is_locked && is_clearable(held.record.expires_at, now)
                {
                    // Deletes only this version, so a lock of a later holder stays.
                    self.delete_later(held);
                }
                Ok(is_live)
            };
            self.attempts().run(once).await.map_err(|error| error.with_key(&request.key))
        };
        cancel::read(request.cancellation.as_ref(), Box::pin(read)).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let read = async {
            let once = async |attempt| {
                let (store, hint) = (&self.0.store, request.key_hint.as_ref());
                let found = match &request.by {
                    LookupBy::Key(key) => {
                        let found = self.lock(key, &attempt).await?;
                        found.filter(|(held, now)| held.record.is_live(*now)).map(|(held, _)| held)
                    }
                    LookupBy::LockId(id) => store.find(*id, hint, &attempt).await?.lock.ok(),
                };
                Ok(found.map(|held| held.record.into_info()))
            };
            self.attempts().run(once).await.map_err(|error| request.by.name_in(error))
        };
        cancel::read(request.cancellation.as_ref(), Box::pin(read)).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        self.0.store.watch(&request.key).await
    }

    async fn health(&self) -> Health {
        basic_health(self, SignalStatus::of_watch).await
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.clone()))
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>(S::NAME, TimeAuthority::Client).with_fence_windows()
    }

    fn client_state(&self) -> &ClientState {
        &self.0.client_state
    }
}

impl<S: ConditionalStore> Settle for Conditional<S> {
    type VoidAfter = Fence;

    async fn settle(&self, acquire: &Unsettled<Fence>) -> Result<Settled, LockError> {
        release::settle(self, acquire).await
    }
}

impl<S: ConditionalStore> Clone for Conditional<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: ConditionalStore> fmt::Debug for Conditional<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conditional").field("store", &S::NAME).finish_non_exhaustive()
    }
}
