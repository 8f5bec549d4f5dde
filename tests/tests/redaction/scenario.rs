//! The scenario for each backend.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use syncguard_conformance::{Decorated, Group, Harness, Suite};
use syncguard_core::contract::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_core::inventory::ListRequest;
use syncguard_core::{
    AcquisitionOptions, AutoExtend, Fence, LockBackend, LockConfig, LockError, LockId, acquire,
    lock,
};

use syncguard_test_effort::either;

use crate::net::Net;
use crate::watched::{Watched, read_error, told, watched};

/// A unique text that the net knows.
pub(crate) fn secret() -> String {
    let secret = LockId::generate().expect("randomness").expose().to_owned();
    Net::global().add(&secret);
    secret
}

/// One store after the other, because reading all lines is enough work.
pub(crate) async fn alone() -> impl Drop {
    static BUSY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    BUSY.lock().await
}

/// The suite on one store, without the groups that only repeat operations concurrently.
pub(crate) async fn suite(harness: impl Harness) {
    // Reading all lines takes time, and cases that wait for an expiry need fast answers.
    const AT_ONCE: usize = 8;

    let net = Net::global();
    let harness = Decorated::new(harness, |backend| watched(net, backend));
    let more_of_the_same = either(
        &[
            Group::Concurrency,
            Group::Contention,
            Group::Expiration,
            Group::Hints,
            Group::Expectation,
            Group::Ownership,
        ][..],
        &[Group::Concurrency, Group::Contention],
    );
    let suite = Suite::new().only(|case| !more_of_the_same.contains(&case.group));
    let report = suite.at_once(AT_ONCE).run(harness).await;
    assert!(report.results().count() > either(60, 80) && report.is_success(), "{report}");
}

/// Backends that are used in turn.
pub(crate) struct Handles<B> {
    backends: Vec<B>,
    given: AtomicUsize,
}

impl<B: LockBackend> Handles<B> {
    pub(crate) fn new(backends: impl IntoIterator<Item = B>) -> Self {
        Self { backends: backends.into_iter().collect(), given: AtomicUsize::new(0) }
    }

    pub(crate) fn next(&self) -> B {
        let next = self.given.fetch_add(1, Ordering::Relaxed);
        self.backends[next % self.backends.len()].clone()
    }
}

/// Locks and guards with each kind of end, on a store that works.
pub(crate) async fn locks(backend: &Watched<impl LockBackend>) {
    let name = || format!("canary:{}", secret());
    lock(backend, name(), async |_| ()).await.expect("a lock");
    let key = name();
    let config = LockConfig::new(&key).with_ttl(TTL);
    let mut kept =
        acquire(backend, config.with_auto_extend(AutoExtend::new())).await.expect("a lock");
    let _ = kept.extend(TTL).await.expect("an answer");
    let impatient = AcquisitionOptions::new().with_max_retries(2).with_retry_delay(PAUSE);
    let config = LockConfig::new(&key).with_acquisition(impatient);
    let contended = acquire(backend, config).await.expect_err("someone else's lock");
    read_error(Net::global(), &contended);
    // Renewed several times, and then stolen.
    tokio::time::sleep(TTL * 4 / 5).await;
    let _ = backend.release(ReleaseRequest::new(kept.lock_id())).await.expect("an answer");
    kept.lost().await;
    Net::global().read("a guard", &format!("{kept:?} {:?}", kept.held()));
    drop(kept);
}

/// A renewal comes after each third of this.
const TTL: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(10);

/// Every operation, on a store that answers with errors or not at all.
pub(crate) async fn all_fail(backend: &Watched<impl LockBackend>) {
    let key = format!("canary:{}", secret());
    let lock_id = LockId::generate().expect("randomness");
    let ttl = Duration::from_secs(60);
    let request = AcquireRequest::new(&key, ttl).expect("a request").with_lock_id(lock_id);
    backend.acquire(request).await.expect_err("no store");
    backend
        .extend(ExtendRequest::new(lock_id, ttl).expect("a request"))
        .await
        .expect_err("no store");
    backend.is_locked(IsLockedRequest::new(&key).expect("a request")).await.expect_err("no store");
    backend.lookup(LookupRequest::by_key(&key).expect("a request")).await.expect_err("no store");
    backend.lookup(LookupRequest::by_lock_id(lock_id)).await.expect_err("no store");
    backend.release(ReleaseRequest::new(lock_id)).await.expect_err("no store");
    // Some of these succeed, if only the records of locks are unreadable.
    let list = ListRequest::new().with_prefix(&key);
    let inventory = backend.inventory().expect("an inventory");
    let _ = inventory.list_locks(list.clone()).await;
    let _ = inventory.list_counters(list).await;
    let _ = inventory.fence_counter(&key).await;
    let _ = inventory.raise_counter(&key, Fence::MAX).await;
}

/// Connecting fails, and its error is read.
pub(crate) fn refused<T>(result: Result<T, LockError>) {
    let Err(error) = result else { panic!("it connected") };
    read_error(Net::global(), &error);
}

/// The net must have caught nothing, and must have read lines of this backend's driver.
pub(crate) async fn nothing_was_given_away(drivers: &[&str]) {
    told().await;
    let net = Net::global();
    for driver in drivers {
        assert!(net.lines_from(driver) > 0, "nothing was read of {driver}");
    }
    let leaks = net.leaks();
    assert!(leaks.is_empty(), "{leaks:#?}");
}
