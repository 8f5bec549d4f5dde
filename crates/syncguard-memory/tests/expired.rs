//! The end of the records of expired locks.

use std::time::Duration;

use syncguard_memory::contract::{AcquireRequest, ReleaseRequest};
use syncguard_memory::{LockBackend, MemoryBackend, NotHeld, ReleaseResult};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Locks that are never released are deleted some time after they expire.
#[tokio::test(start_paused = true)]
async fn expired_locks_do_not_pile_up() {
    let backend = MemoryBackend::new();
    for n in 0..50_000_u32 {
        let request = AcquireRequest::new(format!("key-{n}"), MILLISECOND).unwrap();
        assert!(backend.acquire(request).await.unwrap().is_acquired());
        if n % 10 == 0 {
            tokio::time::advance(Duration::from_millis(40)).await;
        }
    }
    // A lock is kept for 3 s after its expiry, which is 750 locks here. At most twice as many are stored.
    assert!(backend.stored_locks() <= 1_600, "{}", backend.stored_locks());
}

/// For two seconds after its tolerance a lock is expired, and then it is unknown.
#[tokio::test(start_paused = true)]
async fn an_expired_lock_is_remembered_for_two_seconds() {
    for (after, why) in
        [(1000, NotHeld::Expired), (2999, NotHeld::Expired), (3000, NotHeld::NotFound)]
    {
        let backend = MemoryBackend::new();
        let request = AcquireRequest::new("key", MILLISECOND).unwrap();
        let lock_id = request.lock_id;
        assert!(backend.acquire(request).await.unwrap().is_acquired());
        tokio::time::advance(MILLISECOND + Duration::from_millis(after)).await;
        let answer = backend.release(ReleaseRequest::new(lock_id)).await.unwrap();
        assert_eq!(answer, ReleaseResult::NotHeld(why), "{after} ms after the expiry");
    }
}
