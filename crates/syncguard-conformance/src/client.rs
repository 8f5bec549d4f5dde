//! The operations in the form that the cases use.

use std::time::Duration;

use syncguard_core::contract::{
    AcquireRequest, AcquireResult, Acquired, ExtendRequest, HashId, IsLockedRequest, LookupRequest,
    ReleaseRequest,
};
use syncguard_core::{
    Contention, DynBackend, ExtendResult, Fence, Key, LockBackend, LockId, LockInfo, NotHeld,
    ReleaseResult, Timestamp,
};

use crate::outcome::{Checked, Outcome, Unexpected, answer, ensure, ensure_eq};

/// A handle on the store. Its methods treat each error of the backend as unexpected.
#[derive(Clone)]
pub(crate) struct Client {
    backend: DynBackend,
    /// Whether the fences of the backend mean anything.
    fences: bool,
}

/// A granted lock. It has no fence if the backend does not fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) lock_id: LockId,
    pub(crate) expires_at: Timestamp,
    pub(crate) fence: Option<Fence>,
}

impl Granted {
    pub(crate) fn fence(&self) -> Checked<Fence> {
        self.fence.ok_or_else(|| Unexpected::new("a backend that fences granted no fence"))
    }

    /// Checks that this is a later acquisition of the same key.
    #[track_caller]
    pub(crate) fn follows(&self, earlier: &Self) -> Outcome {
        let (later, earlier) = (self.fence, earlier.fence);
        ensure!(later.is_none() || later > earlier, "fence {later:?} follows fence {earlier:?}");
        Ok(())
    }
}

/// A live lock as a lookup shows it. It has no fence if the backend does not fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: HashId,
    pub(crate) lock_id: HashId,
    pub(crate) acquired_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) fence: Option<Fence>,
}

impl Client {
    pub(crate) fn new(backend: DynBackend, fences: bool) -> Self {
        Self { backend, fences }
    }

    pub(crate) fn fences(&self) -> bool {
        self.fences
    }

    /// The fence, if it means anything.
    pub(crate) fn fence(&self, fence: Fence) -> Option<Fence> {
        self.fences.then_some(fence)
    }

    /// The lock that an acquire with this lock id was granted.
    pub(crate) fn granted(&self, lock_id: LockId, acquired: &Acquired) -> Checked<Granted> {
        ensure!(acquired.lock_id == lock_id, "acquire granted another lock id than it was asked");
        let fence = self.fence(acquired.fence);
        Ok(Granted { lock_id, expires_at: acquired.expires_at, fence })
    }

    pub(crate) fn seen(&self, info: &LockInfo) -> Seen {
        Seen {
            key: info.key.hash_id(),
            lock_id: info.lock_id.hash_id(),
            acquired_at: info.acquired_at,
            expires_at: info.expires_at,
            fence: self.fence(info.fence),
        }
    }

    /// The backend itself, for tokens, guards, and operations that are expected to fail.
    pub(crate) fn backend(&self) -> &DynBackend {
        &self.backend
    }

    /// One attempt under a fresh lock id; `None` if the key is held.
    pub(crate) async fn acquire(&self, key: &Key, ttl: Duration) -> Checked<Option<Granted>> {
        self.send(AcquireRequest::new(key, ttl)?).await
    }

    pub(crate) async fn send(&self, request: AcquireRequest) -> Checked<Option<Granted>> {
        let lock_id = request.lock_id;
        match answer("acquire", self.backend.acquire(request).await)? {
            AcquireResult::Busy(_) => Ok(None),
            AcquireResult::Acquired(acquired) => Ok(Some(self.granted(lock_id, &acquired)?)),
            refused @ AcquireResult::Refused(_) => {
                Err(Unexpected::new(format!("acquire without a window answered {refused:?}")))
            }
        }
    }

    /// Acquires a key that must be free.
    pub(crate) async fn take(&self, key: &Key, ttl: Duration) -> Checked<Granted> {
        granted(self.acquire(key, ttl).await?)
    }

    /// Sends a request that must be granted.
    pub(crate) async fn send_granted(&self, request: AcquireRequest) -> Checked<Granted> {
        granted(self.send(request).await?)
    }

    /// Tries for a key that must be held.
    pub(crate) async fn refused(&self, key: &Key, ttl: Duration) -> Checked<()> {
        self.refusal(key, ttl).await.map(drop)
    }

    /// Tries for a key that must be held, and returns how long until the key is free at the latest.
    pub(crate) async fn refused_for(&self, key: &Key, ttl: Duration) -> Checked<Duration> {
        let left = self.refusal(key, ttl).await?.free_within;
        left.ok_or_else(|| Unexpected::new("a refusal did not say after how long the key is free"))
    }

    /// Tries for a key that must be held, and returns what the refusal says of its lock.
    pub(crate) async fn refusal(&self, key: &Key, ttl: Duration) -> Checked<Contention> {
        let request = AcquireRequest::new(key, ttl)?;
        match answer("acquire", self.backend.acquire(request).await)? {
            AcquireResult::Busy(contention) => Ok(contention),
            other => Err(Unexpected::new(format!("acquire of a held key answered {other:?}"))),
        }
    }

    pub(crate) async fn release(&self, lock_id: LockId) -> Checked<ReleaseResult> {
        answer("release", self.backend.release(ReleaseRequest::new(lock_id)).await)
    }

    /// Releases a lock that must be live.
    pub(crate) async fn released(&self, lock_id: LockId) -> Checked<()> {
        match self.release(lock_id).await? {
            ReleaseResult::Released => Ok(()),
            other => Err(Unexpected::new(format!("release of a live lock answered {other:?}"))),
        }
    }

    /// Releases a lock that must not be held, and returns the reason.
    pub(crate) async fn not_released(&self, lock_id: LockId) -> Checked<NotHeld> {
        match self.release(lock_id).await? {
            ReleaseResult::NotHeld(why) => Ok(why),
            other => {
                Err(Unexpected::new(format!("release of what is not held answered {other:?}")))
            }
        }
    }

    pub(crate) async fn extend(&self, lock_id: LockId, ttl: Duration) -> Checked<ExtendResult> {
        self.send_extend(ExtendRequest::new(lock_id, ttl)?).await
    }

    pub(crate) async fn extend_expecting(
        &self,
        lock_id: LockId,
        ttl: Duration,
        expected: Timestamp,
    ) -> Checked<ExtendResult> {
        self.send_extend(ExtendRequest::new(lock_id, ttl)?.with_expected_expiry(expected)).await
    }

    /// As [`extend_expecting`](Self::extend_expecting), together with others of the same moment.
    pub(crate) async fn extend_with_others(
        &self,
        lock_id: LockId,
        ttl: Duration,
        expected: Timestamp,
    ) -> Checked<ExtendResult> {
        let request = ExtendRequest::new(lock_id, ttl)?.with_expected_expiry(expected);
        self.send_extend(request.with_others(true)).await
    }

    async fn send_extend(&self, request: ExtendRequest) -> Checked<ExtendResult> {
        answer("extend", self.backend.extend(request).await)
    }

    /// Extends a lock that must be live, and returns its new expiry.
    pub(crate) async fn extended(&self, lock_id: LockId, ttl: Duration) -> Checked<Timestamp> {
        match self.extend(lock_id, ttl).await? {
            ExtendResult::Extended { expires_at } => Ok(expires_at),
            other => Err(Unexpected::new(format!("extend of a live lock answered {other:?}"))),
        }
    }

    /// Extends a lock that must not be held, and returns the reason.
    pub(crate) async fn not_extended(&self, lock_id: LockId, ttl: Duration) -> Checked<NotHeld> {
        match self.extend(lock_id, ttl).await? {
            ExtendResult::NotHeld(why) => Ok(why),
            other => Err(Unexpected::new(format!("extend of what is not held answered {other:?}"))),
        }
    }

    pub(crate) async fn is_locked(&self, key: &Key) -> Checked<bool> {
        let request = IsLockedRequest::new(key)?;
        answer("is_locked", self.backend.is_locked(request).await)
    }

    pub(crate) async fn find(&self, request: LookupRequest) -> Checked<Option<LockInfo>> {
        answer("lookup", self.backend.lookup(request).await)
    }

    pub(crate) async fn by_key(&self, key: &Key) -> Checked<Option<Seen>> {
        Ok(self.find(LookupRequest::by_key(key)?).await?.map(|info| self.seen(&info)))
    }

    pub(crate) async fn by_id(&self, lock_id: LockId) -> Checked<Option<Seen>> {
        Ok(self.find(LookupRequest::by_lock_id(lock_id)).await?.map(|info| self.seen(&info)))
    }

    /// Checks that a lock is live and that all lookups agree on it.
    pub(crate) async fn live(&self, key: &Key, lock_id: LockId) -> Checked<Seen> {
        ensure!(self.is_locked(key).await?, "is_locked answered false for a live lock");
        let Some(by_key) = self.by_key(key).await? else {
            return Err(Unexpected::new("lookup by key found nothing of a live lock"));
        };
        ensure_eq!(self.by_id(lock_id).await?, Some(by_key), "the lock by its id and by its key");
        ensure!(by_key.lock_id == lock_id.hash_id(), "the key is held under another lock id");
        Ok(by_key)
    }

    /// Checks that a live lock has not changed.
    pub(crate) async fn unchanged(&self, key: &Key, lock_id: LockId, before: Seen) -> Checked<()> {
        ensure_eq!(self.live(key, lock_id).await?, before, "a lock that nobody changed");
        Ok(())
    }

    /// Checks that a key looks free, without taking it.
    pub(crate) async fn free(&self, key: &Key) -> Checked<()> {
        ensure!(!self.is_locked(key).await?, "is_locked answered true for a free key");
        ensure_eq!(self.by_key(key).await?, None, "the lookup of a free key");
        Ok(())
    }

    /// Checks that a lock id holds nothing, by each operation that takes it.
    pub(crate) async fn powerless(&self, lock_id: LockId) -> Checked<()> {
        ensure_eq!(self.by_id(lock_id).await?, None, "the lookup by an id that holds nothing");
        self.not_extended(lock_id, Duration::from_secs(60)).await?;
        self.not_released(lock_id).await?;
        Ok(())
    }
}

fn granted(result: Option<Granted>) -> Checked<Granted> {
    result.ok_or_else(|| Unexpected::new("acquire answered Locked where it has to grant the lock"))
}
