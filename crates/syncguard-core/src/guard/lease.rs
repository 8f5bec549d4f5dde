//! One held lock and the two things that can be done to it.

use super::status::{LossReason, Status};
use crate::rt::{self, Instant, Spawner};
use crate::{
    ErrorCode, ExtendRequest, ExtendResult, GuardDefaults, Key, LockBackend, LockError, LockId,
    ReleaseErrorContext, ReleaseRequest, ReleaseResult, ReleaseSource, Ttl,
};

/// A held lock, owned by exactly one party: the guard, or the keeper that renews it.
pub(crate) struct Lease<B> {
    pub(crate) backend: B,
    pub(crate) key: Key,
    pub(crate) lock_id: LockId,
    pub(crate) ttl: Ttl,
    pub(crate) disposal: GuardDefaults,
    pub(crate) spawner: Spawner,
}

impl<B: LockBackend> Lease<B> {
    /// Extends the lock and notes what the holder may rely on from then on.
    pub(crate) async fn extend(
        &self,
        ttl: Ttl,
        status: &Status,
    ) -> Result<ExtendResult, LockError> {
        let until = Instant::now() + ttl.as_duration();
        status.extending(until);
        let request = ExtendRequest { lock_id: self.lock_id, ttl, cancellation: None };
        // Boxed: it lives for a moment, and a driver's future would swell every guard's.
        let result = Box::pin(self.backend.extend(request)).await?;
        match result {
            ExtendResult::Extended { expires_at } => status.renewed(until, expires_at),
            ExtendResult::NotHeld(_) => status.end(LossReason::NotHeld),
        }
        Ok(result)
    }

    /// Releases the lock within the dispose timeout; after that the release goes on unheard.
    pub(crate) async fn release(&self) -> Result<ReleaseResult, LockError> {
        let deadline = rt::after(self.disposal.dispose_timeout);
        let release = Box::pin(self.backend.release(ReleaseRequest::new(self.lock_id)));
        rt::until(deadline, release).await.unwrap_or_else(|| {
            let timeout = self.disposal.dispose_timeout;
            Err(LockError::new(
                ErrorCode::NetworkTimeout,
                format!("no answer to the release within {timeout:?}"),
            )
            .with_unknown_outcome()
            .with_key(&self.key)
            .with_lock_id(self.lock_id))
        })
    }

    /// Releases the lock where nobody waits for the answer.
    pub(crate) async fn dispose(self, source: ReleaseSource) {
        if let Err(error) = self.release().await {
            self.report(&error, source);
        }
    }

    pub(crate) fn report(&self, error: &LockError, source: ReleaseSource) {
        let context = ReleaseErrorContext { key: self.key.clone(), lock_id: self.lock_id, source };
        self.disposal.on_release_error.report(error, &context);
    }
}
