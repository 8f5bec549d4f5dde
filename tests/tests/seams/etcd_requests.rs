//! Requests of etcd that are late, and answers that are lost: a request for the time must not be taken for one of them.

use anyhow::{Context as _, Result};
use syncguard_etcd::LockBackend as _;
use syncguard_etcd::contract::{IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_test_services::proxy::{FaultProxy, ReplyCut};
use syncguard_tests::calls::until;

use crate::etcd::faults::locks;
use crate::etcd::support::{backend, backend_at, fresh, options, shared, take};

/// The replies to the read and the transaction and everything between are cut after any number of bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_asked_for_again() -> Result<()> {
    let proxy = FaultProxy::start(shared().port(0))?;
    let prefix = fresh();
    let direct = backend(&prefix).await;
    let (mut fences, mut cuts) = (0, 0);
    for bytes in (0..300).step_by(11) {
        let options = options().with_remembered_locks(bytes % 2 * 10).without_clock_probe();
        let through = backend_at(proxy.port(), &prefix, options).await;
        // The connection is open, with its greetings.
        through.is_locked(IsLockedRequest::new("warm")?).await?;
        let before = proxy.counters();
        proxy.set_reply_cut(ReplyCut::Once(bytes));
        let lock = take(&through, "k", 60_000).await;
        assert!(lock.fence.get() > fences, "{} after {fences}", lock.fence);
        fences = lock.fence.get();
        let seen = direct.lookup(LookupRequest::by_key("k")?).await?.context("a lock")?;
        assert_eq!((seen.fence, seen.lock_id), (lock.fence, lock.lock_id));
        proxy.set_reply_cut(ReplyCut::Once(bytes));
        match through.release(ReleaseRequest::new(lock.lock_id)).await {
            Ok(answer) => assert!(answer.is_released(), "{bytes}"),
            Err(error) => assert!(error.is_outcome_unknown(), "{error:?}"),
        }
        proxy.set_reply_cut(ReplyCut::Never);
        let _ = direct.release(ReleaseRequest::new(lock.lock_id)).await?;
        until("free", async || locks(&prefix).is_empty()).await;
        cuts += (proxy.counters() - before).cuts;
    }
    assert!(cuts >= 20 && fences >= 20, "{cuts} cuts, {fences} fences");
    Ok(())
}
