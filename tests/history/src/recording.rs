//! A backend that records its history.

use syncguard_core::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, LookupBy, LookupRequest,
    ReleaseRequest,
};
use syncguard_core::{
    ExtendResult, Fence, LockBackend, LockError, LockInfo, ReleaseResult, Timestamp, forward,
};

use crate::event::{Answer, Call};
use crate::recorder::Recorder;

/// A wrapper that records all requests to a backend and its answers.
///
/// Operations of the backend itself are not recorded, such as the release of a lock whose caller is gone.
#[derive(Clone, Debug)]
pub struct Recording<B> {
    inner: B,
    recorder: Recorder,
}

impl<B> Recording<B> {
    /// Records all operations on this backend.
    #[must_use]
    pub fn new(inner: B, recorder: Recorder) -> Self {
        Self { inner, recorder }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend<Fence = Fence>> LockBackend for Recording<B> {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let pending = self.recorder.call(Call::Acquire {
            key: request.key.expose().to_owned(),
            lock: request.lock_id.hash_id().to_string(),
            ttl: request.ttl.as_millis(),
        });
        let result = self.inner.acquire(request).await;
        pending.answer(match &result {
            Ok(AcquireResult::Acquired(lock)) => Answer::Acquired {
                fence: lock.fence.get(),
                expires_at: lock.expires_at.as_millis(),
            },
            Ok(AcquireResult::Busy(_)) => Answer::Locked,
            Ok(AcquireResult::Refused(_)) => Answer::Refused,
            Err(error) => failed(error),
        });
        result
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let lock = request.lock_id.hash_id().to_string();
        let pending = self.recorder.call(Call::Release { lock });
        let result = self.inner.release(request).await;
        pending.answer(match &result {
            Ok(ReleaseResult::NotHeld(_)) => Answer::NotHeld,
            Ok(_) => Answer::Released,
            Err(error) => failed(error),
        });
        result
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let lock = request.lock_id.hash_id().to_string();
        let expected = request.expected_expiry.map(Timestamp::as_millis);
        let ttl = request.ttl.as_millis();
        let pending = self.recorder.call(Call::Extend { lock, ttl, expected });
        let result = self.inner.extend(request).await;
        pending.answer(match &result {
            Ok(ExtendResult::Extended { expires_at }) => {
                Answer::Extended { expires_at: expires_at.as_millis() }
            }
            Ok(ExtendResult::Mismatch { expires_at }) => {
                Answer::Mismatch { expires_at: expires_at.as_millis() }
            }
            Ok(_) => Answer::NotHeld,
            Err(error) => failed(error),
        });
        result
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let pending = self.recorder.call(Call::IsLocked { key: request.key.expose().to_owned() });
        let result = self.inner.is_locked(request).await;
        pending.answer(match &result {
            Ok(locked) => Answer::Is(*locked),
            Err(error) => failed(error),
        });
        result
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let pending = self.recorder.call(match &request.by {
            LookupBy::Key(key) => Call::LookupKey { key: key.expose().to_owned() },
            LookupBy::LockId(lock) => Call::LookupLock { lock: lock.hash_id().to_string() },
        });
        let result = self.inner.lookup(request).await;
        pending.answer(match &result {
            Ok(Some(info)) => Answer::Found {
                lock: info.lock_id.hash_id().to_string(),
                fence: info.fence.get(),
                acquired_at: info.acquired_at.as_millis(),
                expires_at: info.expires_at.as_millis(),
            },
            Ok(None) => Answer::Nothing,
            Err(error) => failed(error),
        });
        result
    }

    forward!(inner: watch, health, inventory, capabilities, client_state);
}

fn failed(error: &LockError) -> Answer {
    Answer::Failed { code: error.code().to_string(), unknown: error.is_outcome_unknown() }
}
