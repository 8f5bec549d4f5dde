//! The cost of operations, and how they take lost and doubled writes and stores that are not fit.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_object_store::contract::{
    AcquireRequest, Acquired, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_object_store::inventory::ListRequest;
use syncguard_object_store::{
    ErrorCode, Fence, LockBackend as _, LockId, ObjectStoreBackend, ObjectStoreOptions,
    ReleaseResult,
};
use syncguard_tests::inventory::{inventory, locks};

use crate::object_store::bucket::{Bucket, Kind};

const MINUTE: Duration = Duration::from_secs(60);

fn backend(bucket: &Arc<Bucket>, remembered: usize) -> ObjectStoreBackend {
    bucket.line().backend(ObjectStoreOptions::new().with_remembered_locks(remembered))
}

async fn take(backend: &ObjectStoreBackend, key: &str, ttl: Duration) -> Result<Acquired> {
    let acquired = backend.acquire(AcquireRequest::new(key, ttl)?).await?;
    acquired.acquired().context("a free key")
}

async fn release(backend: &ObjectStoreBackend, lock_id: LockId) -> Result<ReleaseResult> {
    Ok(backend.release(ReleaseRequest::new(lock_id)).await?)
}

#[tokio::test(start_paused = true)]
async fn each_operation_costs_what_the_documentation_says() -> Result<()> {
    for remembers in [true, false] {
        let bucket = Bucket::new(Kind::Right);
        let ours = backend(&bucket, if remembers { 10 } else { 0 });
        // The check of the store, and its time.
        let first = take(&ours, "other", MINUTE).await?;
        assert_eq!(bucket.requests().iter().filter(|it| it.ends_with(" c")).count(), 5);
        let costs = |expected: &[&str], what: &str| {
            assert_eq!(bucket.requests(), expected, "{what}, with a memory: {remembers}");
        };
        let looked_up = |writes: &'static [&'static str]| -> Vec<&str> {
            let reads: &[&str] = if remembers { &[] } else { &["GET i", "GET k"] };
            [reads, writes].concat()
        };
        let lock = take(&ours, "k", MINUTE).await?;
        costs(&["GET k", "PUT k", "PUT i"], "the first acquire");
        assert!(!ours.acquire(AcquireRequest::new("k", MINUTE)?).await?.is_acquired());
        costs(&["GET k"], "a refused acquire");
        let extended = ours.extend(ExtendRequest::new(lock.lock_id, 2 * MINUTE)?).await?;
        assert!(extended.is_extended());
        costs(&looked_up(&["PUT k"]), "an extend");
        assert!(ours.is_locked(IsLockedRequest::new("k")?).await?);
        costs(&["GET k"], "is_locked");
        assert!(ours.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?.is_some());
        costs(&["GET i", "GET k"], "a lookup by lock id");
        assert_eq!(locks(&ours, ListRequest::new()).await?.0.len(), 2);
        costs(&["LIST k", "GET k", "GET k"], "a listing");
        assert!(release(&ours, lock.lock_id).await?.is_released());
        costs(&looked_up(&["PUT k", "DELETE i"]), "a release");
        let lock = take(&ours, "k", MINUTE).await?;
        let again: &[&str] =
            if remembers { &["PUT k", "PUT i"] } else { &["GET k", "PUT k", "PUT i"] };
        costs(again, "an acquire of a key that was released");
        assert_eq!(lock.fence.get(), 2);

        // Nothing is left but an object for each key.
        for lock in [first, lock] {
            // By its id alone, in another process.
            assert!(release(&backend(&bucket, 10), lock.lock_id).await?.is_released());
        }
        assert!(bucket.names().iter().all(|name| name.starts_with("locks/k/")));
        assert_eq!(bucket.names().len(), 2);
    }
    Ok(())
}

/// A write whose answer is lost, and one that a proxy sends twice and of which it passes on the second answer.
#[tokio::test(start_paused = true)]
async fn own_writes_are_recognised() -> Result<()> {
    for doubled in [true, false] {
        let bucket = Bucket::new(Kind::Right);
        let line = bucket.line();
        let ours = line.backend(ObjectStoreOptions::new());
        release(&ours, take(&ours, "k", MINUTE).await?.lock_id).await?;
        let goes_wrong = || {
            if doubled { line.doubles_the_next_write() } else { line.loses_the_next_answer() }
        };
        goes_wrong();
        let lock = take(&ours, "k", MINUTE).await?;
        assert_eq!(lock.fence.get(), 2, "one acquire has one fence");
        let found = backend(&bucket, 0).lookup(LookupRequest::by_lock_id(lock.lock_id)).await?;
        assert!(found.is_some(), "the entry of the lock id is there");
        goes_wrong();
        let extend = ExtendRequest::new(lock.lock_id, 2 * MINUTE)?;
        assert!(ours.extend(extend).await?.is_extended());
        goes_wrong();
        let released = release(&ours, lock.lock_id).await;
        if doubled {
            assert!(released?.is_released());
        } else {
            let error = released.unwrap_err().downcast::<syncguard_object_store::LockError>()?;
            assert!(error.is_outcome_unknown(), "{error:?}");
        }
        assert!(!ours.is_locked(IsLockedRequest::new("k")?).await?);
    }
    Ok(())
}

/// The memory of the holder knows the fence of its lock, and not that the counter was raised meanwhile.
#[tokio::test(start_paused = true)]
async fn fences_never_go_back() -> Result<()> {
    let bucket = Bucket::new(Kind::Right);
    let (ours, other) = (backend(&bucket, 10), backend(&bucket, 10));
    let lock = take(&ours, "k", MINUTE).await?;
    inventory(&other).raise_counter("k", Fence::new(70)?).await?;
    assert!(release(&ours, lock.lock_id).await?.is_released());
    assert_eq!(take(&ours, "k", Duration::from_secs(1)).await?.fence.get(), 71);
    // Over for others, with the tolerance. The heir deletes the index entry of the lock before.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!(take(&other, "k", MINUTE).await?.fence.get(), 72);
    assert_eq!(bucket.names().iter().filter(|name| name.contains("/i/")).count(), 1);
    Ok(())
}

/// The first acquire refuses a store that ignores conditions. A racy one is found by the check with races.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_not_fit_is_refused() -> Result<()> {
    for kind in [Kind::Right, Kind::Racy, Kind::IgnoresMatch, Kind::IgnoresAll] {
        let bucket = Bucket::new(kind);
        let ours = backend(&bucket, 10);
        let taken = take(&ours, "k", MINUTE).await;
        let faults = ours.check_conditions().await?.faults;
        match kind {
            Kind::Right => assert!(taken.is_ok() && faults.is_empty(), "{faults:?}"),
            Kind::Racy => {
                assert!(taken.is_ok() && faults.iter().all(|it| it.contains("of one moment")));
                assert!(!faults.is_empty());
                let strict = ObjectStoreOptions::new().with_strict_conditions(true);
                assert!(take(&bucket.line().backend(strict), "other", MINUTE).await.is_err());
            }
            _ => {
                let error = taken.unwrap_err().downcast::<syncguard_object_store::LockError>()?;
                assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error:?}");
                assert!(bucket.names().is_empty() && !faults.is_empty());
                assert_eq!(kind == Kind::IgnoresAll, faults[0].contains("creates an object"));
            }
        }
    }
    Ok(())
}
