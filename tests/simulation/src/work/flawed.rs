//! Users with a flaw.

use std::time::Duration;

use syncguard_core::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard_core::{LockBackend as _, LockConfig, LockError, try_acquire};
use syncguard_history::Entry;
use tokio::time::Instant;

use super::{TTL, Worker};

impl Worker {
    /// A flawed copy of an election, without renewals and without checks of the time.
    pub(super) async fn lead_deaf(&mut self) -> Result<(), LockError> {
        let config = LockConfig::new("leader-deaf").with_ttl(TTL);
        if let Some(guard) = try_acquire(&self.backend, config).await?.acquired() {
            guard.lost().await;
            let left = u64::try_from(guard.valid_for().as_micros()).unwrap_or(u64::MAX);
            self.recorder.note(Entry::Told { left });
            let _ = guard.release().await?;
        }
        Ok(())
    }

    /// A flawed user of the bare backend, which relies on a grant however late the answer comes.
    pub(super) async fn trust_anything(&mut self) -> Result<(), LockError> {
        let ttl = Duration::from_millis(2);
        let asked = Instant::now();
        let request = AcquireRequest::new("trusted", ttl)?;
        if let AcquireResult::Acquired(lock) = self.backend.acquire(request).await? {
            let left = ttl.saturating_sub(asked.elapsed()).as_micros();
            self.recorder.note(Entry::Told { left: u64::try_from(left).unwrap_or(u64::MAX) });
            let _ = self.backend.release(ReleaseRequest::new(lock.lock_id)).await?;
        }
        Ok(())
    }
}
