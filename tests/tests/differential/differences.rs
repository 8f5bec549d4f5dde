//! Answers that no other test compares on all stores.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{AcquireRequest, ExtendRequest, IsLockedRequest, ReleaseRequest};
use syncguard::{ErrorCode, ExtendResult, LockBackend as _, Timestamp};

use crate::differential::stores::{fresh, simulated};

const HOUR: Duration = Duration::from_secs(3600);

/// A lock id must be fresh. All stores notice a used id if the lock was taken through the same backend; Firestore
/// only then, because nothing in it keeps two documents from having one id.
#[tokio::test]
async fn a_lock_id_of_another_key_is_refused() -> Result<()> {
    for backend in fresh().await {
        let name = backend.capabilities().backend;
        let first = AcquireRequest::new("one", HOUR)?;
        let id = first.lock_id;
        ensure!(backend.acquire(first).await?.is_acquired(), "{name}");
        let second = AcquireRequest::new("two", HOUR)?.with_lock_id(id);
        let error = backend.acquire(second).await.err().context(name)?;
        ensure!(error.code() == ErrorCode::InvalidArgument, "{name}: {error:?}");
        ensure!(!format!("{error:?}").contains(id.expose()), "{name}: {error:?}");
        ensure!(backend.is_locked(IsLockedRequest::new("one")?).await?, "{name}");
        ensure!(!backend.is_locked(IsLockedRequest::new("two")?).await?, "{name}");
        ensure!(backend.release(ReleaseRequest::new(id)).await?.is_released(), "{name}");
    }
    Ok(())
}

/// The conformance suite has these answers of the real servers.
#[tokio::test]
async fn simulated_servers_judge_expectations_as_the_real_ones() -> Result<()> {
    for backend in simulated() {
        let request = AcquireRequest::new("expected", HOUR)?;
        let id = request.lock_id;
        let lock = backend.acquire(request).await?.acquired().context("a free key")?;
        let expires_at = lock.expires_at;
        let extend = async |expected| {
            let request = ExtendRequest::new(id, 2 * HOUR)?.with_expected_expiry(expected);
            backend.extend(request).await
        };
        let wrong = Timestamp::from_millis(expires_at.as_millis() - 1)?;
        ensure!(extend(wrong).await? == ExtendResult::Mismatch { expires_at });
        ensure!(extend(expires_at).await?.is_extended());
        ensure!(matches!(extend(expires_at).await?, ExtendResult::Mismatch { .. }));
        ensure!(backend.release(ReleaseRequest::new(id)).await?.is_released());
        ensure!(!extend(expires_at).await?.is_extended());
    }
    Ok(())
}
