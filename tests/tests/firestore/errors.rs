//! The backend's errors for every status of Firestore.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_firestore::ErrorCode::{
    self, AuthFailed, Internal, InvalidArgument, NetworkTimeout, RateLimited, ServiceUnavailable,
};
use syncguard_firestore::contract::{
    ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_firestore::gcloud_sdk::tonic::Code;
use syncguard_firestore::{FirestoreBackend, LockBackend as _, LockError, LockId};

use crate::firestore::gateway::Gateway;
use crate::firestore::support::{
    backend, backend_with, eventually, fresh, options_at, request, take,
};

const READ: &str = "BatchGetDocuments";
const QUERY: &str = "RunQuery";
const COMMIT: &str = "Commit";
const ALWAYS: u32 = 1000;

/// Every status code, and its meaning for a read.
const CODES: [(Code, ErrorCode); 16] = [
    (Code::Cancelled, ServiceUnavailable),
    (Code::Unknown, ServiceUnavailable),
    (Code::InvalidArgument, InvalidArgument),
    (Code::DeadlineExceeded, NetworkTimeout),
    (Code::NotFound, InvalidArgument),
    (Code::AlreadyExists, Internal),
    (Code::PermissionDenied, AuthFailed),
    (Code::ResourceExhausted, RateLimited),
    (Code::FailedPrecondition, InvalidArgument),
    (Code::Aborted, ServiceUnavailable),
    (Code::OutOfRange, Internal),
    (Code::Unimplemented, InvalidArgument),
    (Code::Internal, ServiceUnavailable),
    (Code::Unavailable, ServiceUnavailable),
    (Code::DataLoss, Internal),
    (Code::Unauthenticated, AuthFailed),
];

const CONFLICTS: [Code; 4] =
    [Code::Aborted, Code::FailedPrecondition, Code::AlreadyExists, Code::NotFound];

const OPEN: [Code; 6] = [
    Code::Cancelled,
    Code::Unknown,
    Code::DeadlineExceeded,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
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
    for (code, expected) in CODES {
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
    gateway.clear();
    assert!(backend.release(ReleaseRequest::new(id)).await?.is_released());
    Ok(())
}

#[tokio::test]
async fn a_commit_that_fails_is_told_by_its_code() -> Result<()> {
    let (gateway, url) = (Gateway::start(), fresh());
    let (backend, direct) = (through(&gateway, &url).await, backend(&url).await);
    for (code, expected) in CODES {
        let id = take(&direct, "held", 60_000).await.lock_id;
        gateway.set(COMMIT, code, ALWAYS);
        let errors = [
            backend.acquire(request("k", 1000)).await.unwrap_err(),
            backend.extend(ExtendRequest::new(id, Duration::from_secs(1))?).await.unwrap_err(),
            backend.release(ReleaseRequest::new(id)).await.unwrap_err(),
        ];
        gateway.clear();
        let expected = if CONFLICTS.contains(&code) { ServiceUnavailable } else { expected };
        for error in errors {
            assert_eq!(error.code(), expected, "{code:?}: {error:?}");
            assert_eq!(error.is_outcome_unknown(), OPEN.contains(&code), "{code:?}: {error:?}");
            tells_nothing(&error, id);
        }
        assert!(direct.release(ReleaseRequest::new(id)).await?.is_released(), "{code:?}");
        // The background work of an acquire with an unknown outcome must not meet the next code.
        eventually("settled", async || backend.client_state().clean_up().waiting() == 0).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_conflict_is_tried_again_and_a_fault_is_not() -> Result<()> {
    let (gateway, url) = (Gateway::start(), fresh());
    let backend = through(&gateway, &url).await;
    for (code, _) in CODES {
        let again = if CONFLICTS.contains(&code) {
            3
        } else {
            // A broken connection, or a call that was cut off, six times.
            6 * u32::from(matches!(code, Code::Unavailable | Code::Cancelled))
        };
        gateway.set(COMMIT, code, ALWAYS);
        backend.acquire(request("k", 1000)).await.unwrap_err();
        assert_eq!(ALWAYS - gateway.clear(), 1 + again, "{code:?}");
        if again > 0 {
            gateway.set(COMMIT, code, again);
            let key = format!("k-{code:?}");
            let lock = take(&backend, &key, 60_000).await;
            gateway.set(COMMIT, code, again);
            let answer = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
            assert!(answer.is_released(), "{code:?}");
        }
        // An acquire with an unknown outcome sends one more commit in the background.
        eventually("settled", async || backend.client_state().clean_up().waiting() == 0).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found_out_about() -> Result<()> {
    let (gateway, url) = (Gateway::start(), fresh());
    let (backend, direct) = (through(&gateway, &url).await, backend(&url).await);

    // The connection broke: acquire retries, and finds its own lock.
    gateway.lose_answer(COMMIT, Code::Unavailable);
    let lock = take(&backend, "k", 60_000).await;
    let seen = direct.lookup(LookupRequest::by_key("k")?).await?.context("a lock")?;
    assert_eq!((seen.fence, seen.expires_at), (lock.fence, lock.expires_at));
    assert_eq!(lock.fence.get(), 1);

    gateway.lose_answer(COMMIT, Code::Unavailable);
    let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(90))?;
    assert!(backend.extend(extend).await?.is_extended());

    // Our release and a release by another client look alike.
    gateway.lose_answer(COMMIT, Code::Unavailable);
    let error = backend.release(ReleaseRequest::new(lock.lock_id)).await.unwrap_err();
    assert!(error.is_outcome_unknown() && error.is_retryable(), "{error:?}");
    assert!(!direct.is_locked(IsLockedRequest::new("k")?).await?);

    // There is no time for a retry: the lock is released in the background.
    gateway.lose_answer(COMMIT, Code::DeadlineExceeded);
    let error = backend.acquire(request("k", 60_000)).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
    let failed = Instant::now();
    while direct.is_locked(IsLockedRequest::new("k")?).await? {
        assert!(failed.elapsed() < Duration::from_secs(20), "an orphan");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
