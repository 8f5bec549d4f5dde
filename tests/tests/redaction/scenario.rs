//! The scenario for each backend.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use syncguard_conformance::{Decorated, Group, Harness, Suite};
use syncguard_core::contract::{IsLockedRequest, ReleaseRequest};
use syncguard_core::inventory::ListRequest;
use syncguard_core::{
    AcquisitionOptions, AutoExtend, Fence, Key, LockBackend, LockConfig, LockError, LockId,
    acquire, lock,
};
use syncguard_test_effort::{either, is_full};
use syncguard_tests::calls::all_at_once;
use tokio::sync::Semaphore;

use crate::net::Net;
use crate::watched::{Watched, read_error, told, watched};

/// A unique text that the net knows.
pub(crate) fn secret() -> String {
    let secret = LockId::generate().expect("randomness").expose().to_owned();
    Net::global().add(&secret);
    secret
}

/// Two stores at a time, because reading all lines is enough work.
pub(crate) async fn turn() -> impl Drop {
    static TURNS: Semaphore = Semaphore::const_new(2);
    TURNS.acquire().await.expect("the semaphore is never closed")
}

/// The suite on one store: each operation with each of its answers, and in a full run all groups but two, which only
/// repeat operations.
pub(crate) async fn suite(store: impl Harness) {
    // Reading all lines takes time, and cases that wait for an expiry need fast answers.
    const AT_ONCE: usize = 8;
    const EACH_ANSWER: [Group; 5] =
        [Group::Lifecycle, Group::Lookup, Group::Errors, Group::Signals, Group::Inventory];
    const REPEATS: [Group; 2] = [Group::Concurrency, Group::Contention];
    let is_chosen =
        |group| if is_full() { !REPEATS.contains(&group) } else { EACH_ANSWER.contains(&group) };
    let harness = Decorated::new(store, |backend| watched(Net::global(), backend));
    let suite = Suite::new().only(|case| is_chosen(case.group));
    let report = suite.at_once(AT_ONCE).run(harness).await;
    assert!(report.results.len() > either(40, 80) && report.is_success(), "{report}");
}

/// Uses a backend until it knows its store's time well enough for cases that judge the end of a lock: a new one knows it to
/// within a second. `width` is that of the bounds, in milliseconds.
pub(crate) async fn narrow<B: LockBackend>(
    backend: B,
    width: impl Fn(&B) -> i64,
    widest: i64,
    within: Duration,
) -> B {
    let began = Instant::now();
    while width(&backend) > widest {
        assert!(began.elapsed() < within, "the bounds stay wide");
        let asked = IsLockedRequest::new("any").expect("a request");
        let _ = backend.is_locked(asked).await.expect("an answer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    backend
}

/// A change of a key's record by another process, if a client in this process would log its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// The counter gets this last fence.
    Counter(Fence),
    /// The lock becomes unreadable.
    Spoilt,
}

/// Handles on one store, which are used in turn.
pub(crate) struct Handles<B, C> {
    backends: Vec<B>,
    given: AtomicUsize,
    /// Returns false if the store has no records to spoil.
    change: C,
}

impl<B: LockBackend, C: Fn(&str, Change) -> bool> Handles<B, C> {
    pub(crate) fn new(backends: Vec<B>, change: C) -> Self {
        Self { backends, given: AtomicUsize::new(0), change }
    }
}

impl<B: LockBackend, C> Harness for Handles<B, C>
where
    C: Fn(&str, Change) -> bool + Send + Sync + 'static,
{
    type Backend = B;

    async fn connect(&self) -> B {
        let next = self.given.fetch_add(1, Ordering::Relaxed);
        self.backends[next % self.backends.len()].clone()
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        (self.change)(key.expose(), Change::Counter(last));
    }

    async fn corrupt(&self, key: &Key) -> bool {
        (self.change)(key.expose(), Change::Spoilt)
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
    for result in all_at_once(backend, &key, lock_id).await {
        result.expect_err("no store");
    }
    // Some of these succeed, if only the records of locks are unreadable.
    let list = ListRequest::new().with_prefix(&key);
    let inventory = backend.inventory().expect("an inventory");
    let errors = [
        inventory.list_locks(list.clone()).await.err(),
        inventory.list_counters(list).await.err(),
        inventory.fence_counter(&key).await.err(),
        inventory.raise_counter(&key, Fence::MAX).await.err(),
    ];
    errors.iter().flatten().for_each(|error| read_error(Net::global(), error));
}

/// Connecting fails, and its error is read.
pub(crate) fn refused<T>(result: Result<T, LockError>) {
    let Err(error) = result else { panic!("it connected") };
    read_error(Net::global(), &error);
}

/// The places of the library's own lines.
pub(crate) const OWN: [&str; 4] =
    ["syncguard_core", "syncguard::telemetry", "an event", "an error"];

/// The net must have caught nothing, and must have read lines of these places.
pub(crate) async fn nothing_was_given_away(places: &[&str]) {
    told().await;
    let net = Net::global();
    for place in places {
        assert!(net.lines_from(place) > 0, "nothing was read of {place}");
    }
    let leaks = net.leaks();
    assert!(leaks.is_empty(), "{leaks:#?}");
}
