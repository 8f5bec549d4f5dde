//! Requests that are carried out after their sender has given them up, and their clean-up.
//!
//! A channel of tonic is one connection, which all clones of a backend share. After its client's side is cut, the
//! next call opens another connection, while the proxy keeps the bytes of the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use syncguard_firestore::contract::{
    ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_firestore::{
    AcquisitionOptions, AutoExtend, ErrorCode, ExtendResult, FirestoreBackend, FirestoreOptions,
    LockBackend as _, LockConfig, LockError, LockId, Timestamp, TryAcquired, acquire, lock,
    try_acquire,
};
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::proxy::{FaultProxy, Hold, ReplyCut};
use tokio::task::JoinSet;

use crate::firestore::operations::{extend, release};
use crate::firestore::support::{
    Raw, backend, backend_with, eventually, fresh, options, options_at, request, shared, take,
    text, warm_up,
};

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MS: u64 = 3_600_000;
const MINUTE: Duration = Duration::from_secs(60);

/// A backend whose commits can be held back, and another backend beside it.
struct Way {
    proxy: Arc<FaultProxy>,
    ours: FirestoreBackend,
    /// Counts the calls of `ours`.
    calls: Raw,
    other: FirestoreBackend,
    raw: Raw,
    /// The number of looks at the clock until `ours` is held back; 0 is never.
    looks: Arc<AtomicUsize>,
    /// A lock of `ours` whose release is sent behind the held request.
    marker: LockId,
}

/// The number of looks at the clock before an operation sends its commit.
const BEFORE_ACQUIRE: usize = 3;
const BEFORE_EXTEND: usize = 3;
const BEFORE_RELEASE: usize = 2;

impl Way {
    async fn new() -> Result<Self> {
        Self::with_clock(SystemTime::now).await
    }

    async fn with_clock(
        clock: impl Fn() -> SystemTime + Copy + Send + Sync + 'static,
    ) -> Result<Self> {
        let url = fresh();
        let proxy = Arc::new(FaultProxy::start(shared().port())?);
        let looks = Arc::new(AtomicUsize::new(0));
        let hook = {
            let (proxy, looks) = (Arc::clone(&proxy), Arc::clone(&looks));
            move || {
                let left = looks
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                if left == Ok(1) {
                    proxy.hold(Hold::Open);
                }
                clock()
            }
        };
        let calls = Raw::at(&url, proxy.port());
        let ours = calls.backend(&url, &options().with_clock(hook));
        let other = backend_with(&url, options().with_clock(clock)).await;
        let marker = take(&ours, "marker", HOUR_MS).await.lock_id;
        Ok(Self { proxy, ours, calls, other, raw: Raw::new(&url), looks, marker })
    }

    /// Sends an operation whose commit is held back, until its sender has given it up. No connection is possible
    /// until `accept`.
    async fn give_up<T>(
        &self,
        looks: usize,
        operation: impl Future<Output = Result<T, LockError>>,
    ) -> Result<()> {
        self.looks.store(looks, Ordering::SeqCst);
        let cut = async {
            self.is_held().await;
            let marker = self.ours.release(ReleaseRequest::new(self.marker));
            let sever = async {
                // Until the proxy has both commits, an error says that nothing was sent.
                self.is_held_back("locks/k").await;
                self.is_held_back("locks/marker").await;
                self.proxy.refuse();
                self.proxy.sever_clients();
            };
            tokio::join!(marker, sever).0.err()
        };
        let (given_up, marker) = tokio::join!(operation, cut);
        for error in [given_up.err(), marker] {
            let error = error.context("an answer to what was held back")?;
            assert!(error.is_outcome_unknown(), "{error:?}");
            assert!(error.is_retryable(), "{error:?}");
        }
        self.calls.calls();
        Ok(())
    }

    async fn is_held(&self) {
        eventually("held", async || self.proxy.held() == 1).await;
    }

    /// Waits until the commit that writes this document is held.
    async fn is_held_back(&self, document: &str) {
        eventually("held back", async || self.proxy.holds_bytes(document.as_bytes())).await;
    }

    /// Lets the store carry out the held requests. The marker is done on return, and the other request then or a
    /// moment later.
    async fn deliver(&self) {
        assert_eq!(self.proxy.deliver(), 1);
        eventually("delivered", async || self.raw.get("locks/marker").await.is_none()).await;
        // The store works on the two requests side by side.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    async fn is_settled(&self) {
        eventually("settled", async || self.ours.client_state().clean_up().waiting() == 0).await;
        assert_eq!(self.ours.client_state().clean_up().left_to_ttl(), 0);
    }

    /// After the clean-up has moved the counter once, a late acquire takes neither lock nor fence.
    async fn delivers_an_acquire_in_vain(&self) {
        self.is_settled().await;
        assert_eq!(self.fence().await.as_deref(), Some("000000000000001"));
        self.deliver().await;
        assert!(self.raw.get("locks/k").await.is_none(), "an orphan");
        assert_eq!(take(&self.other, "k", 1).await.fence.get(), 2);
    }

    async fn fence(&self) -> Option<String> {
        let counter = self.raw.get("fence_counters/fence:k").await?;
        (1..10).map(|fence| format!("{fence:015}")).find(|fence| counter["fence"] == text(fence))
    }

    async fn expiry(&self) -> Result<Timestamp> {
        let found = self.other.lookup(LookupRequest::by_key("k")?).await?;
        Ok(found.context("a lock")?.expires_at)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_acquire_takes_nothing_after_the_clean_up() -> Result<()> {
    let way = Way::new().await?;
    way.give_up(BEFORE_ACQUIRE, way.ours.acquire(request("k", HOUR_MS))).await?;
    way.proxy.accept()?;
    way.delivers_an_acquire_in_vain().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_acquire_is_given_back_by_the_clean_up() -> Result<()> {
    let way = Way::new().await?;
    way.give_up(BEFORE_ACQUIRE, way.ours.acquire(request("k", HOUR_MS))).await?;
    way.deliver().await;
    eventually("carried out", async || way.raw.get("locks/k").await.is_some()).await;
    way.proxy.accept()?;
    way.is_settled().await;
    assert!(way.raw.get("locks/k").await.is_none(), "an orphan");
    // The late acquire has moved the counter itself.
    assert_eq!(take(&way.other, "k", 1).await.fence.get(), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_acquire_that_others_came_before_costs_no_fence() -> Result<()> {
    let way = Way::new().await?;
    way.give_up(BEFORE_ACQUIRE, way.ours.acquire(request("k", HOUR_MS))).await?;
    let held = take(&way.other, "k", HOUR_MS).await;
    assert!(release(&way.other, held.lock_id).await?.is_released());
    way.proxy.accept()?;
    way.delivers_an_acquire_in_vain().await;
    Ok(())
}

/// A caller that leaves before the commit is sent needs no clean-up, and a caller that is granted a lock later
/// releases it in one call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_left_too_early_moves_no_counter_later() -> Result<()> {
    let way = Way::new().await?;
    for (looks, calls) in [(1, 1), (BEFORE_ACQUIRE, 3)] {
        way.calls.calls();
        way.looks.store(looks, Ordering::SeqCst);
        let acquiring = way.ours.acquire(request("k", HOUR_MS));
        tokio::select! {
            _ = acquiring => anyhow::bail!("an answer to what was held back"),
            () = way.is_held() => {}
        }
        assert_eq!(way.proxy.deliver(), 1);
        eventually("all called", async || way.calls.calls_so_far() >= calls).await;
        way.is_settled().await;
        eventually("gone", async || way.raw.get("locks/k").await.is_none()).await;
        assert_eq!(way.calls.calls(), calls);
        let fence = (looks == BEFORE_ACQUIRE).then_some("000000000000001");
        assert_eq!(way.fence().await.as_deref(), fence);
    }
    Ok(())
}

/// An acquire that ends with its runtime, before it has sent its commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_runtime_took_with_it_moves_no_counter_later() -> Result<()> {
    let way = Way::new().await?;
    way.looks.store(1, Ordering::SeqCst);
    let elsewhere =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let ours = way.ours.clone();
    let waiting = elsewhere.spawn(async move { ours.acquire(request("k", HOUR_MS)).await });
    way.is_held().await;
    elsewhere.shutdown_background();
    assert!(waiting.await.is_err());
    eventually("left", async || way.ours.client_state().clean_up().waiting() == 1).await;
    assert_eq!(way.proxy.deliver(), 1);
    // In a live runtime, another lock waits for its release as well.
    drop(try_acquire(&way.ours, "other").await?.acquired().context("a free key")?);
    way.is_settled().await;
    assert_eq!(way.fence().await, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_extend_changes_nothing_after_a_later_one() -> Result<()> {
    for overtaken in [false, true] {
        let way = Way::new().await?;
        let lock = take(&way.ours, "k", 60_000).await;
        let short = ExtendRequest::new(lock.lock_id, Duration::from_secs(20))?;
        way.give_up(BEFORE_EXTEND, way.ours.extend(short)).await?;
        if overtaken {
            assert!(extend(&way.other, lock.lock_id).await?);
        }
        let before = way.expiry().await?;
        way.deliver().await;
        if overtaken {
            assert_eq!(way.expiry().await?, before);
        } else {
            let extended = async || way.expiry().await.is_ok_and(|expiry| expiry != before);
            eventually("extended", extended).await;
        }
    }
    Ok(())
}

/// A write without a change leaves the version as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_extend_changes_nothing_after_one_to_the_same_time() -> Result<()> {
    let clock = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let way = Way::with_clock(clock).await?;
    let lock = take(&way.ours, "k", 60_000).await;
    let short = ExtendRequest::new(lock.lock_id, Duration::from_secs(20))?;
    way.give_up(BEFORE_EXTEND, way.ours.extend(short)).await?;
    let same = ExtendRequest::new(lock.lock_id, MINUTE)?;
    let ExtendResult::Extended { expires_at } = way.other.extend(same).await? else {
        anyhow::bail!("a lock that is lost");
    };
    assert_eq!(expires_at.as_millis(), lock.expires_at.as_millis() + 1);
    way.deliver().await;
    assert_eq!(way.expiry().await?, expires_at);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_release_frees_nobody_elses_lock() -> Result<()> {
    for taken in [false, true] {
        let way = Way::new().await?;
        let lock = take(&way.ours, "k", HOUR_MS).await;
        let again = || request("k", HOUR_MS).with_lock_id(lock.lock_id);
        way.give_up(BEFORE_RELEASE, way.ours.release(ReleaseRequest::new(lock.lock_id))).await?;
        if taken {
            assert!(release(&way.other, lock.lock_id).await?.is_released());
            // Even under the same id this is another lock.
            assert!(way.other.acquire(again()).await?.is_acquired());
        }
        way.deliver().await;
        if taken {
            assert!(way.raw.get("locks/k").await.is_some(), "somebody else's lock");
        } else {
            eventually("released", async || way.raw.get("locks/k").await.is_none()).await;
        }
    }
    Ok(())
}

/// The case that once made two holders of one lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_renewal_does_not_shorten_what_its_guard_relies_on() -> Result<()> {
    let way = Way::new().await?;
    let config =
        LockConfig::new("k").with_ttl(Duration::from_secs(15)).with_auto_extend(AutoExtend::new());
    let mut guard = acquire(&way.ours, config).await?;
    way.proxy.hold(Hold::Open);
    way.is_held_back("locks/k").await;
    // The renewal is resent over another connection, and the longer extend follows it.
    way.proxy.sever_clients();
    assert!(guard.extend(HOUR).await?.is_extended());
    assert!(guard.valid_for() > HOUR / 2);
    assert_eq!(way.expiry().await?, guard.expires_at());
    let version = way.raw.update_time("locks/k").await;
    assert_eq!(way.proxy.deliver(), 1);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(way.expiry().await?, guard.expires_at());
    assert_eq!(way.raw.update_time("locks/k").await, version);
    assert!(guard.release().await?.is_released());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extend_of_an_earlier_expiry_comes_too_late() -> Result<()> {
    let url = fresh();
    let (raw, calls, other) = (Raw::new(&url), Raw::new(&url), backend(&url).await);
    for (remembered, right, in_vain) in [(10, 1, 2), (0, 2, 1)] {
        let ours = calls.backend(&url, &FirestoreOptions::new().with_remembered_locks(remembered));
        let lock = take(&ours, "k", 60_000).await;
        let expecting = |expected| {
            ExtendRequest::new(lock.lock_id, MINUTE)
                .map(|request| request.with_expected_expiry(expected))
        };
        let first = lock.expires_at;
        calls.calls();
        let ExtendResult::Extended { expires_at: second } = ours.extend(expecting(first)?).await?
        else {
            anyhow::bail!("the right expiry is refused");
        };
        assert_eq!(calls.calls(), right);

        // The expected expiry was wrong; the answer has the right one, and the next extend can state it.
        let version = raw.update_time("locks/k").await;
        let mismatch = ExtendResult::Mismatch { expires_at: second };
        assert_eq!(ours.extend(expecting(first)?).await?, mismatch);
        assert_eq!(calls.calls(), 1, "a query");
        assert_eq!(raw.update_time("locks/k").await, version);
        assert!(ours.extend(expecting(second)?).await?.is_extended());
        assert_eq!(calls.calls(), right);

        // The lock was extended elsewhere, which the memory does not know.
        let known = other.lookup(LookupRequest::by_key("k")?).await?.context("a lock")?.expires_at;
        assert!(extend(&other, lock.lock_id).await?);
        let stored = other.lookup(LookupRequest::by_key("k")?).await?.context("a lock")?.expires_at;
        let mismatch = ExtendResult::Mismatch { expires_at: stored };
        calls.calls();
        assert_eq!(ours.extend(expecting(known)?).await?, mismatch);
        assert_eq!(calls.calls(), in_vain);
        // A caller that knows the other expiry may extend the lock here.
        assert!(ours.extend(expecting(stored)?).await?.is_extended());
        assert_eq!(calls.calls(), right);
        assert!(release(&ours, lock.lock_id).await?.is_released());
        assert!(!ours.extend(expecting(stored)?).await?.is_extended());
    }
    Ok(())
}

/// The first sending was carried out, and its answer lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extend_that_is_sent_again_finds_itself_too_late() -> Result<()> {
    let way = Way::new().await?;
    let lock = take(&way.ours, "k", 60_000).await;
    let cut = || way.proxy.set_reply_cut(ReplyCut::Once(0));
    let expecting = ExtendRequest::new(lock.lock_id, HOUR)?.with_expected_expiry(lock.expires_at);
    cut();
    let answer = way.ours.extend(expecting).await?;
    assert_eq!(answer, ExtendResult::Mismatch { expires_at: way.expiry().await? });
    assert!(way.expiry().await?.as_millis() > lock.expires_at.as_millis() + HOUR_MS / 2);
    cut();
    // Without an expected expiry the lock is extended twice, and the answer is the last expiry.
    let answer = way.ours.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?;
    assert_eq!(answer, ExtendResult::Extended { expires_at: way.expiry().await? });
    cut();
    let error = way.ours.release(ReleaseRequest::new(lock.lock_id)).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
    assert!(way.raw.get("locks/k").await.is_none());

    // A guard retries.
    let mut guard = acquire(&way.ours, LockConfig::new("k").with_ttl(MINUTE)).await?;
    cut();
    assert!(guard.extend(HOUR).await?.is_extended());
    assert_eq!(way.expiry().await?, guard.expires_at());
    assert!(guard.release().await?.is_released());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_granted_too_late_starts_no_work() -> Result<()> {
    const TTL: Duration = Duration::from_millis(300);
    let way = Way::new().await?;
    way.proxy.set_latency(Duration::ZERO, TTL);
    let patience = AcquisitionOptions::new().with_timeout(Duration::from_secs(2));
    let config = |key: &str| LockConfig::new(key).with_ttl(TTL).with_acquisition(patience);
    let mut started = false;
    let error = lock(&way.ours, config("k"), async |_| started = true).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
    assert!(!started);
    let error = try_acquire(&way.ours, config("other")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
    // An expired lock would still be stored.
    eventually("given back", async || way.raw.ids("locks").await == ["marker"]).await;
    assert!(way.fence().await.is_some(), "nothing was granted");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_answers_are_not_contention() -> Result<()> {
    let way = Way::new().await?;
    let held = take(&way.other, "held", HOUR_MS).await;
    let patience = AcquisitionOptions::new()
        .with_timeout(Duration::from_millis(1500))
        .with_max_retries(u32::MAX);
    let mut callers = JoinSet::new();
    for number in 0..40 {
        // Some callers have learned that the lock is held before the store went silent.
        let key = if number % 2 == 0 { "held".to_owned() } else { format!("free{number}") };
        let (ours, config) = (way.ours.clone(), LockConfig::new(key).with_acquisition(patience));
        if number % 2 == 0 {
            callers.spawn(async move { acquire(&ours, config).await.map(drop) });
        } else {
            callers.spawn(async move {
                tokio::time::sleep(Duration::from_millis(600)).await;
                acquire(&ours, config).await.map(drop)
            });
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    way.proxy.freeze(true);
    while let Some(result) = callers.join_next().await {
        let error = result?.err().context("a lock from a store that hangs")?;
        let code = error.code();
        assert!(
            matches!(code, ErrorCode::NetworkTimeout | ErrorCode::ServiceUnavailable),
            "{error:?}"
        );
    }
    assert!(release(&way.other, held.lock_id).await?.is_released());
    Ok(())
}

/// The store is stopped for longer than any caller waits, and then carries out the requests that it got.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_answers_late_keeps_no_lock() -> Result<()> {
    const AWAY: Duration = Duration::from_millis(1200);
    let mut emulator = FirestoreEmulator::start()?;
    warm_up(emulator.port()).await;
    let url = fresh();
    let patient = backend_with(&url, options_at(emulator.port())).await;
    let raw = Raw::at(&url, emulator.port());
    let hasty = options_at(emulator.port())
        .with_request_timeout(Duration::from_millis(500))
        .with_operation_timeout(Duration::from_secs(1));
    let ours = backend_with(&url, hasty).await;
    let config = |key: String| LockConfig::new(key).with_ttl(HOUR);
    let mut guards = Vec::new();
    while guards.len() < 4 {
        let key = format!("held{}", guards.len());
        // On a busy machine half a second may be too short to connect.
        let tried = try_acquire(&ours, config(key)).await;
        guards.extend(tried.ok().and_then(TryAcquired::acquired));
    }

    let mut workers = JoinSet::new();
    let (cycles, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    for number in 0..24 {
        let (ours, config) = (ours.clone(), config(format!("k{number}")));
        let (cycles, stopped) = (Arc::clone(&cycles), Arc::clone(&stopped));
        workers.spawn(async move {
            let cycle = async || match try_acquire(&ours, config.clone()).await?.acquired() {
                Some(guard) => guard.release().await.map(drop),
                // The earlier lock, whose release is still in progress.
                None => Ok(()),
            };
            loop {
                match cycle().await {
                    Ok(()) => cycles.fetch_add(1, Ordering::SeqCst),
                    Err(error) if stopped.load(Ordering::SeqCst) => return error,
                    Err(_) => 0,
                };
            }
        });
    }
    eventually("busy", async || cycles.load(Ordering::SeqCst) > 100).await;
    stopped.store(true, Ordering::SeqCst);
    emulator.pause()?;
    let paused = Instant::now();
    let released = guards.pop().context("a guard")?;
    drop(guards);
    let error = released.release().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
    let errors = workers.join_all().await;
    let unknown = errors.iter().filter(|error| error.is_outcome_unknown()).count();
    assert!(unknown > 0, "{errors:?}");
    tokio::time::sleep(AWAY.saturating_sub(paused.elapsed())).await;
    emulator.resume()?;
    let back = Instant::now();
    let none = async || {
        let locks = raw.ids("locks").await;
        locks.is_empty() && ours.client_state().clean_up().waiting() == 0
    };
    eventually("all free", none).await;
    println!(
        "{unknown} of {} unknown, all free {:?} after it is back",
        errors.len(),
        back.elapsed()
    );
    assert_eq!(ours.client_state().clean_up().left_to_ttl(), 0);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(none().await, "a lock that came later");
    assert!(!patient.is_locked(IsLockedRequest::new("held0")?).await?);
    Ok(())
}
