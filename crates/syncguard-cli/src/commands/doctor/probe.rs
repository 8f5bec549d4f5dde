//! Tries each operation of a lock once, to find missing permissions.

use std::time::Duration;

use syncguard::contract::{
    AcquireRequest, AcquireResult, Acquired, ExtendRequest, IsLockedRequest, LookupRequest,
    ReleaseRequest,
};
use syncguard::{DynBackend, ErrorCode, ExtendResult, LockBackend as _, LockError};
use tokio::time::sleep;

use super::examination::Examination;
use super::finding::Finding;
use crate::exit::Failure;
use crate::shell_messages::SETUP;

/// The only key that the doctor locks.
pub(super) const KEY: &str = "syncguard-doctor";

/// The mend for a full memory.
const FULL: &str = "raise maxmemory, or give locks a server of their own: no new lock is granted while the memory is full";

/// The mend for a server that accepts writes only with replicas.
const NO_REPLICAS: &str = "connect the replicas of the server, or lower min-replicas-to-write";

pub(super) async fn permissions(examination: &Examination) -> Finding {
    let Err((operation, error)) = try_each_operation(&examination.backend).await else {
        let says = "locks can be taken, extended, seen and released";
        return Finding::green("permissions", says);
    };
    let mend = mend(examination, &error);
    let failure = Failure::from(error);
    Finding::of_pooler(&failure).unwrap_or_else(|| refusal(operation, &failure, mend))
}

/// The finding for an operation that was refused after it had worked, as at the edge of a full memory, if somebody can mend
/// that.
pub(super) fn refused_later(examination: &Examination, error: &LockError) -> Option<Finding> {
    let mend = mend(examination, error)?;
    Some(refusal("not each time", &Failure::from(error.clone()), Some(mend)))
}

fn refusal(operation: &str, failure: &Failure, mend: Option<String>) -> Finding {
    let says = format!("{operation}: {failure}");
    Finding { says, ..Finding::refusal("permissions", failure) }.with_mend(mend)
}

/// The operation that failed, with its error.
type Refused = (&'static str, LockError);

async fn try_each_operation(backend: &DynBackend) -> Result<(), Refused> {
    let named = |name| move |error| (name, error);
    let acquired = acquire(backend).await.map_err(named("acquire"))?;
    let lock_id = acquired.lock_id;
    let extend = ExtendRequest::new(lock_id, Duration::from_secs(5)).map_err(named("extend"))?;
    let extended = backend.extend(extend).await.map_err(named("extend"))?;
    let look = LookupRequest::by_key(KEY).map_err(named("lookup"))?;
    let by_key = backend.lookup(look).await.map_err(named("lookup by key"))?;
    let by_id = backend.lookup(LookupRequest::by_lock_id(lock_id)).await;
    let by_id = by_id.map_err(named("lookup by lock id"))?;
    let is_locked = IsLockedRequest::new(KEY).map_err(named("is_locked"))?;
    let is_locked = backend.is_locked(is_locked).await.map_err(named("is_locked"))?;
    let released = backend.release(ReleaseRequest::new(lock_id)).await.map_err(named("release"))?;
    let agree = matches!(extended, ExtendResult::Extended { .. })
        && by_key.is_some()
        && by_id.is_some()
        && is_locked
        && released.is_released();
    if agree {
        return Ok(());
    }
    Err(("all", LockError::internal("the store does not find a lock that it has just granted")))
}

/// Acquires the lock, and waits for another doctor that holds it.
pub(super) async fn acquire(backend: &DynBackend) -> Result<Acquired, LockError> {
    for _ in 0..50 {
        let request = AcquireRequest::new(KEY, Duration::from_secs(5))?;
        if let AcquireResult::Acquired(acquired) = backend.acquire(request).await? {
            return Ok(acquired);
        }
        sleep(Duration::from_millis(200)).await;
    }
    let message =
        "another process holds the lock `syncguard-doctor`, which is for the doctor alone";
    Err(LockError::new(ErrorCode::AcquisitionTimeout, message))
}

fn mend(examination: &Examination, error: &LockError) -> Option<String> {
    if error.code() == ErrorCode::AuthFailed {
        return examination.access.clone();
    }
    // The words of PostgreSQL's missing tables and of Redis's full memory and missing replicas.
    let mend = |(word, mend): (&str, &str)| error.message().contains(word).then(|| mend.to_owned());
    [("setup_schema", SETUP), ("maxmemory", FULL), ("too few replicas", NO_REPLICAS)]
        .into_iter()
        .find_map(mend)
}
