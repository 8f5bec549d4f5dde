//! The backend's errors for every kind of status of Firestore.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use syncguard_firestore::ErrorCode::{
    self, AuthFailed, Internal, InvalidArgument, NetworkTimeout, RateLimited, ServiceUnavailable,
};
use syncguard_firestore::contract::{
    ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_firestore::gcloud_sdk::tonic::Code;
use syncguard_firestore::{FirestoreBackend, LockBackend as _, LockError, LockId};
use syncguard_tests::calls::until;

use crate::firestore::gateway::Gateway;
use crate::firestore::support::{backend, backend_with, fresh, options_at, request, take};

const READ: &str = "BatchGetDocuments";
const QUERY: &str = "RunQuery";
pub(crate) const COMMIT: &str = "Commit";
const ALWAYS: u32 = 1000;

/// Status codes of each kind: the error of a read, that of a commit, whether the outcome of the commit is unknown, and
/// how often it is tried again. A unit test of the crate has all codes.
const CODES: [(Code, ErrorCode, ErrorCode, bool, u32); 10] = [
    // A broken connection, a call that was cut off, or an internal error.
    (Code::Cancelled, ServiceUnavailable, ServiceUnavailable, true, 6),
    (Code::Unavailable, ServiceUnavailable, ServiceUnavailable, true, 6),
    // A conflict.
    (Code::Aborted, ServiceUnavailable, ServiceUnavailable, false, 3),
    (Code::FailedPrecondition, InvalidArgument, ServiceUnavailable, false, 3),
    (Code::AlreadyExists, Internal, ServiceUnavailable, false, 3),
    (Code::NotFound, InvalidArgument, ServiceUnavailable, false, 3),
    (Code::DeadlineExceeded, NetworkTimeout, NetworkTimeout, true, 0),
    (Code::Internal, ServiceUnavailable, ServiceUnavailable, true, 6),
    (Code::PermissionDenied, AuthFailed, AuthFailed, false, 0),
    (Code::ResourceExhausted, RateLimited, RateLimited, false, 0),
];

fn tells_nothing(error: &LockError, id: LockId) {
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let _ = write!(text, "{cause} {cause:?}");
        source = cause.source();
    }
    for secret in ["secret", "locks/", id.expose()] {
        assert!(!text.contains(secret), "{text}");
    }
}

async fn through(gateway: &Gateway, url: &str) -> FirestoreBackend {
    let options = options_at(gateway.port).with_conflict_retries(3).with_remembered_locks(0);
    backend_with(url, options).await
}

#[tokio::test]
async fn a_read_that_fails_is_told_by_its_code() -> Result<()> {
    let (gateway, url) = (Gateway::start(), fresh());
    let backend = through(&gateway, &url).await;
    let id = take(&backend, "k", 60_000).await.lock_id;
    for (code, expected, ..) in CODES {
        gateway.set(READ, code, ALWAYS);
        let mut errors = vec![
            backend.acquire(request("k", 1000)).await.unwrap_err(),
            backend.is_locked(IsLockedRequest::new("k")?).await.unwrap_err(),
            backend.lookup(LookupRequest::by_key("k")?).await.unwrap_err(),
        ];
        gateway.set(QUERY, code, ALWAYS);
        errors.extend([
            backend.lookup(LookupRequest::by_lock_id(id)).await.unwrap_err(),
            backend.release(ReleaseRequest::new(id)).await.unwrap_err(),
            backend.extend(ExtendRequest::new(id, Duration::from_secs(1))?).await.unwrap_err(),
        ]);
        for error in errors {
            assert_eq!(error.code(), expected, "{code:?}: {error:?}");
            assert!(!error.is_outcome_unknown(), "{code:?}: nothing was written");
            tells_nothing(&error, id);
        }
    }
    // The stream ends well, before it has mentioned the document.
    gateway.set(READ, Code::Ok, ALWAYS);
    let error = backend.is_locked(IsLockedRequest::new("k")?).await.unwrap_err();
    assert_eq!(error.code(), Internal, "{error:?}");
    gateway.clear();
    assert!(backend.release(ReleaseRequest::new(id)).await?.is_released());
    Ok(())
}

/// A conflict is tried again, and a fault is not.
#[tokio::test]
async fn a_commit_that_fails_is_told_by_its_code_or_tried_again() -> Result<()> {
    let (gateway, url) = (Gateway::start(), fresh());
    let (backend, direct) = (through(&gateway, &url).await, backend(&url).await);
    for (code, _, expected, is_unknown, again) in CODES {
        let id = take(&direct, "held", 60_000).await.lock_id;
        gateway.set(COMMIT, code, ALWAYS);
        let acquired = backend.acquire(request("k", 1000)).await.unwrap_err();
        assert_eq!(ALWAYS - gateway.clear(), 1 + again, "{code:?}");
        // An acquire with an unknown outcome sends one more commit in the background.
        until("settled", async || backend.client_state().pending_releases() == 0).await;
        gateway.set(COMMIT, code, ALWAYS);
        let errors = [
            acquired,
            backend.extend(ExtendRequest::new(id, Duration::from_secs(1))?).await.unwrap_err(),
            backend.release(ReleaseRequest::new(id)).await.unwrap_err(),
        ];
        gateway.clear();
        for error in errors {
            assert_eq!(error.code(), expected, "{code:?}: {error:?}");
            assert_eq!(error.is_outcome_unknown(), is_unknown, "{code:?}: {error:?}");
            tells_nothing(&error, id);
        }
        assert!(direct.release(ReleaseRequest::new(id)).await?.is_released(), "{code:?}");
        if again > 0 {
            gateway.set(COMMIT, code, again);
            let lock = take(&backend, &format!("k-{code:?}"), 60_000).await;
            gateway.set(COMMIT, code, again);
            let answer = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
            assert!(answer.is_released(), "{code:?}");
        }
    }
    Ok(())
}
