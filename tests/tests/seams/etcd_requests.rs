//! Requests of etcd that are late, and answers that are lost: a request for the time must not be taken for one of them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_conformance::{Group, Harness, Late, Suite, Verdict};
use syncguard_etcd::contract::{IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_etcd::{EtcdBackend, Fence, Key, LockBackend as _};
use syncguard_test_services::proxy::{FaultProxy, ReplyCut};
use syncguard_tests::calls::until;

use crate::etcd::conformance::Etcd;
use crate::etcd::faults::locks;
use crate::etcd::support::{backend, backend_at, fresh, options, shared, take};
use crate::support::gate::ProxyGate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_late_change_nothing() {
    for remembered in [0, 100] {
        let suite = Suite::new().only(|case| case.group == Group::Late).at_once(8);
        let report = suite.run(Gated(Etcd::at(shared(), shared().port(0)), remembered)).await;
        let passed = |(_, result): (_, &Result<Verdict, _>)| *result == Ok(Verdict::Passed);
        assert!(report.results().count() > 3 && report.results().all(passed), "{report}");
    }
}

/// With the number of locks that a backend remembers.
struct Gated(Etcd, usize);

impl Harness for Gated {
    type Backend = EtcdBackend;

    async fn connect(&self) -> EtcdBackend {
        backend_at(shared().port(0), &self.0.prefix, options().without_clock_probe()).await
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.0.set_fence_counter(key, last).await;
    }

    async fn connect_late(&self) -> Option<Late<EtcdBackend>> {
        const LIMIT: Duration = Duration::from_secs(4);
        const SLACK: Duration = Duration::from_millis(500);
        let (gate, port) = ProxyGate::start(shared().port(0));
        let options = options().with_remembered_locks(self.1).without_clock_probe();
        // There is no time for another try, which would go over a new connection.
        let options = options.with_request_timeout(LIMIT).with_operation_timeout(LIMIT);
        // Without a memory each operation reads first, and its transaction is the late request.
        let gate = gate.after(u64::from(self.1 == 0));
        let backend = backend_at(port, &self.0.prefix, options).await;
        Some(Late::new(backend, LIMIT + SLACK, gate))
    }
}

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
        assert_eq!((seen.fence, seen.expose().lock_id), (lock.fence, lock.lock_id));
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
