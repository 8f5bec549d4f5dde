//! The operations in the form that the cases use.

use std::time::Duration;

use syncguard_core::contract::{
    AcquireRequest, AcquireResult, Acquired, ExtendRequest, FenceToken, HashId, IsLockedRequest,
    LookupRequest, ReleaseRequest,
};
use syncguard_core::{
    Contention, DynBackend, ExtendResult, Fence, Key, LockBackend, LockId, LockInfo, NotHeld,
    ReleaseResult, Timestamp,
};

use crate::outcome::Unexpected;

/// A handle on the store. Its methods treat each error of the backend as unexpected.
#[derive(Clone)]
pub(crate) struct Client<F: FenceToken>(DynBackend<F>);

/// A granted lock, which can be compared whatever the type of the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) lock_id: LockId,
    pub(crate) expires_at: Timestamp,
    pub(crate) fence: Option<Fence>,
}

impl Granted {
    /// The lock that an acquire with this lock id was granted.
    pub(crate) fn of<F: FenceToken>(
        lock_id: LockId,
        acquired: &Acquired<F>,
    ) -> Result<Self, Unexpected> {
        if acquired.lock_id != lock_id {
            let message = "acquire granted another lock id than the request carries";
            return Err(Unexpected::new(message));
        }
        let fence = acquired.fence.fence();
        Ok(Self { lock_id, expires_at: acquired.expires_at, fence })
    }

    pub(crate) fn fence(&self) -> Result<Fence, Unexpected> {
        self.fence.ok_or_else(|| Unexpected::new("a backend that fences granted no fence"))
    }
}

/// A live lock as a lookup shows it, which can be compared whatever the type of the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: HashId,
    pub(crate) lock_id: HashId,
    pub(crate) acquired_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) fence: Option<Fence>,
}

impl Seen {
    pub(crate) fn new<F: FenceToken>(info: &LockInfo<F>) -> Self {
        Self {
            key: info.key_hash(),
            lock_id: info.lock_id_hash(),
            acquired_at: info.acquired_at,
            expires_at: info.expires_at,
            fence: info.fence.fence(),
        }
    }
}

impl<F: FenceToken> Client<F> {
    pub(crate) fn new(backend: DynBackend<F>) -> Self {
        Self(backend)
    }

    /// The backend itself, for tokens, guards, and operations that are expected to fail.
    pub(crate) fn backend(&self) -> &DynBackend<F> {
        &self.0
    }

    /// One attempt under a fresh lock id; `None` if the key is held.
    pub(crate) async fn acquire(
        &self,
        key: &Key,
        ttl: Duration,
    ) -> Result<Option<Granted>, Unexpected> {
        self.send(AcquireRequest::new(key, ttl)?).await
    }

    pub(crate) async fn send(
        &self,
        request: AcquireRequest,
    ) -> Result<Option<Granted>, Unexpected> {
        let lock_id = request.lock_id;
        match self.0.acquire(request).await.map_err(|error| Unexpected::error("acquire", &error))? {
            AcquireResult::Locked(_) => Ok(None),
            AcquireResult::Acquired(acquired) => Ok(Some(Granted::of(lock_id, &acquired)?)),
            AcquireResult::Refused(refusal) => Err(Unexpected::new(format!(
                "acquire answered {refusal:?} where it has to grant the lock or answer Locked"
            ))),
        }
    }

    /// Acquires a key that must be free.
    pub(crate) async fn take(&self, key: &Key, ttl: Duration) -> Result<Granted, Unexpected> {
        granted(self.acquire(key, ttl).await?)
    }

    /// Sends a request that must be granted.
    pub(crate) async fn send_granted(
        &self,
        request: AcquireRequest,
    ) -> Result<Granted, Unexpected> {
        granted(self.send(request).await?)
    }

    /// Tries for a key that must be held.
    pub(crate) async fn refused(&self, key: &Key, ttl: Duration) -> Result<(), Unexpected> {
        match self.acquire(key, ttl).await? {
            None => Ok(()),
            Some(_) => Err(Unexpected::new("acquire granted a key that someone else holds")),
        }
    }

    /// Tries for a key that must be held, and returns how long until the key is free at the latest.
    pub(crate) async fn refused_for(
        &self,
        key: &Key,
        ttl: Duration,
    ) -> Result<Duration, Unexpected> {
        let left = self.refusal(key, ttl).await?.free_within;
        left.ok_or_else(|| Unexpected::new("a refusal did not say after how long the key is free"))
    }

    /// Tries for a key that must be held, and returns what the refusal says of its lock.
    pub(crate) async fn refusal(&self, key: &Key, ttl: Duration) -> Result<Contention, Unexpected> {
        let request = AcquireRequest::new(key, ttl)?;
        let answer = self.0.acquire(request).await;
        match answer.map_err(|error| Unexpected::error("acquire", &error))? {
            AcquireResult::Locked(contention) => Ok(contention),
            AcquireResult::Acquired(_) => {
                Err(Unexpected::new("acquire granted a key that someone else holds"))
            }
            AcquireResult::Refused(refusal) => {
                Err(Unexpected::new(format!("acquire without a window answered {refusal:?}")))
            }
        }
    }

    pub(crate) async fn release(&self, lock_id: LockId) -> Result<ReleaseResult, Unexpected> {
        let request = ReleaseRequest::new(lock_id);
        self.0.release(request).await.map_err(|error| Unexpected::error("release", &error))
    }

    /// Releases a lock that must be live.
    pub(crate) async fn released(&self, lock_id: LockId) -> Result<(), Unexpected> {
        match self.release(lock_id).await? {
            ReleaseResult::Released => Ok(()),
            other => Err(Unexpected::new(format!("release of a live lock answered {other:?}"))),
        }
    }

    /// Releases a lock that must not be held, and returns the reason.
    pub(crate) async fn not_released(&self, lock_id: LockId) -> Result<NotHeld, Unexpected> {
        match self.release(lock_id).await? {
            ReleaseResult::NotHeld(why) => Ok(why),
            other => Err(Unexpected::new(format!(
                "release of a lock id that holds nothing answered {other:?}"
            ))),
        }
    }

    pub(crate) async fn extend(
        &self,
        lock_id: LockId,
        ttl: Duration,
    ) -> Result<ExtendResult, Unexpected> {
        let request = ExtendRequest::new(lock_id, ttl)?;
        self.0.extend(request).await.map_err(|error| Unexpected::error("extend", &error))
    }

    pub(crate) async fn extend_expecting(
        &self,
        lock_id: LockId,
        ttl: Duration,
        expected: Timestamp,
    ) -> Result<ExtendResult, Unexpected> {
        let request = ExtendRequest::new(lock_id, ttl)?.with_expected_expiry(expected);
        self.0.extend(request).await.map_err(|error| Unexpected::error("extend", &error))
    }

    /// Extends a lock that must be live, and returns its new expiry.
    pub(crate) async fn extended(
        &self,
        lock_id: LockId,
        ttl: Duration,
    ) -> Result<Timestamp, Unexpected> {
        match self.extend(lock_id, ttl).await? {
            ExtendResult::Extended { expires_at } => Ok(expires_at),
            other => Err(Unexpected::new(format!("extend of a live lock answered {other:?}"))),
        }
    }

    /// Extends a lock that must not be held, and returns the reason.
    pub(crate) async fn not_extended(
        &self,
        lock_id: LockId,
        ttl: Duration,
    ) -> Result<NotHeld, Unexpected> {
        match self.extend(lock_id, ttl).await? {
            ExtendResult::NotHeld(why) => Ok(why),
            other => Err(Unexpected::new(format!(
                "extend of a lock id that holds nothing answered {other:?}"
            ))),
        }
    }

    pub(crate) async fn is_locked(&self, key: &Key) -> Result<bool, Unexpected> {
        let request = IsLockedRequest::new(key)?;
        self.0.is_locked(request).await.map_err(|error| Unexpected::error("is_locked", &error))
    }

    pub(crate) async fn find(
        &self,
        request: LookupRequest,
    ) -> Result<Option<LockInfo<F>>, Unexpected> {
        self.0.lookup(request).await.map_err(|error| Unexpected::error("lookup", &error))
    }

    pub(crate) async fn by_key(&self, key: &Key) -> Result<Option<Seen>, Unexpected> {
        Ok(self.find(LookupRequest::by_key(key)?).await?.as_ref().map(Seen::new))
    }

    pub(crate) async fn by_id(&self, lock_id: LockId) -> Result<Option<Seen>, Unexpected> {
        Ok(self.find(LookupRequest::by_lock_id(lock_id)).await?.as_ref().map(Seen::new))
    }

    /// Checks that a lock is live and that all lookups agree on it.
    pub(crate) async fn live(&self, key: &Key, lock_id: LockId) -> Result<Seen, Unexpected> {
        if !self.is_locked(key).await? {
            return Err(Unexpected::new("is_locked answered false for a live lock"));
        }
        let Some(by_key) = self.by_key(key).await? else {
            return Err(Unexpected::new("lookup by key found nothing of a live lock"));
        };
        let Some(by_id) = self.by_id(lock_id).await? else {
            return Err(Unexpected::new("lookup by lock id found nothing of a live lock"));
        };
        if by_key != by_id {
            return Err(Unexpected::new(format!(
                "the lock by its key is {by_key:?}, by its id {by_id:?}"
            )));
        }
        if by_key.lock_id != lock_id.hash_id() {
            return Err(Unexpected::new("the key is held under another lock id"));
        }
        Ok(by_key)
    }

    /// Checks that a live lock has not changed.
    pub(crate) async fn unchanged(
        &self,
        key: &Key,
        lock_id: LockId,
        before: Seen,
    ) -> Result<(), Unexpected> {
        let now = self.live(key, lock_id).await?;
        if now != before {
            return Err(Unexpected::new(format!("the lock was {before:?} and is now {now:?}")));
        }
        Ok(())
    }

    /// Checks that a key looks free, without taking it.
    pub(crate) async fn free(&self, key: &Key) -> Result<(), Unexpected> {
        if self.is_locked(key).await? {
            return Err(Unexpected::new("is_locked answered true for a free key"));
        }
        match self.by_key(key).await? {
            None => Ok(()),
            Some(seen) => Err(Unexpected::new(format!("lookup found {seen:?} on a free key"))),
        }
    }

    /// Checks that a lock id holds nothing, by each operation that takes it.
    pub(crate) async fn powerless(&self, lock_id: LockId) -> Result<(), Unexpected> {
        if let Some(seen) = self.by_id(lock_id).await? {
            return Err(Unexpected::new(format!(
                "lookup by a lock id that holds nothing found {seen:?}"
            )));
        }
        self.not_extended(lock_id, Duration::from_secs(60)).await?;
        self.not_released(lock_id).await?;
        Ok(())
    }
}

fn granted(result: Option<Granted>) -> Result<Granted, Unexpected> {
    result.ok_or_else(|| Unexpected::new("acquire answered Locked where it has to grant the lock"))
}
