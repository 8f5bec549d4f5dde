//! Requests that are carried out after their sender has given them up, and their clean-up.
//!
//! A channel of tonic is one connection, which all clones of a backend share. After its client's side is cut, the
//! next call opens another connection, while the proxy keeps the bytes of the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use syncguard_firestore::contract::{LookupRequest, ReleaseRequest};
use syncguard_firestore::{
    AutoExtend, FirestoreBackend, LockBackend as _, LockConfig, LockId, Timestamp, acquire,
    try_acquire,
};
use syncguard_test_services::proxy::{FaultProxy, Hold};
use syncguard_tests::calls::until;

use crate::firestore::operations::release;
use crate::firestore::support::{Raw, backend, fresh, options, request, shared, take, text};

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MS: u64 = 3_600_000;

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

/// The number of looks at the clock before an acquire sends its commit.
const BEFORE_ACQUIRE: usize = 1;

impl Way {
    async fn new() -> Result<Self> {
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
                SystemTime::now()
            }
        };
        let calls = Raw::at(&url, proxy.port());
        let ours = calls.backend(&url, &options().with_store_clock(hook));
        let other = backend(&url).await;
        let marker = take(&ours, "marker", HOUR_MS).await.lock_id;
        Ok(Self { proxy, ours, calls, other, raw: Raw::new(&url), looks, marker })
    }

    /// Sends an acquire whose commit is held back, until its sender has given it up. No connection is possible until
    /// `accept`.
    async fn give_up_an_acquire(&self) -> Result<()> {
        self.looks.store(BEFORE_ACQUIRE, Ordering::SeqCst);
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
        let acquire = self.ours.acquire(request("k", HOUR_MS));
        let (given_up, marker) = tokio::join!(acquire, cut);
        for error in [given_up.err(), marker] {
            let error = error.context("an answer to what was held back")?;
            assert!(error.is_outcome_unknown(), "{error:?}");
            assert!(error.is_retryable(), "{error:?}");
        }
        self.calls.calls();
        Ok(())
    }

    async fn is_held(&self) {
        until("held", async || self.proxy.held() == 1).await;
    }

    /// Waits until the commit that writes this document is held.
    async fn is_held_back(&self, document: &str) {
        until("held back", async || self.proxy.holds_bytes(document.as_bytes())).await;
    }

    /// Lets the store carry out the held requests. The marker is done on return, and the other request then or a
    /// moment later.
    async fn deliver(&self) {
        assert_eq!(self.proxy.deliver(), 1);
        until("delivered", async || self.raw.get("locks/marker").await.is_none()).await;
        // The store works on the two requests side by side.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    async fn is_settled(&self) {
        until("settled", async || self.ours.client_state().pending_releases() == 0).await;
        assert_eq!(self.ours.client_state().left_to_ttl(), 0);
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
    for others_came_before in [false, true] {
        let way = Way::new().await?;
        way.give_up_an_acquire().await?;
        if others_came_before {
            let held = take(&way.other, "k", HOUR_MS).await;
            assert!(release(&way.other, held.lock_id).await?.is_released());
        }
        way.proxy.accept()?;
        way.is_settled().await;
        assert_eq!(way.fence().await.as_deref(), Some("000000000000001"), "moved once");
        way.deliver().await;
        assert!(way.raw.get("locks/k").await.is_none(), "an orphan");
        assert_eq!(take(&way.other, "k", 1).await.fence.get(), 2);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_acquire_is_given_back_by_the_clean_up() -> Result<()> {
    let way = Way::new().await?;
    way.give_up_an_acquire().await?;
    way.deliver().await;
    until("carried out", async || way.raw.get("locks/k").await.is_some()).await;
    way.proxy.accept()?;
    way.is_settled().await;
    assert!(way.raw.get("locks/k").await.is_none(), "an orphan");
    // The late acquire has moved the counter itself.
    assert_eq!(take(&way.other, "k", 1).await.fence.get(), 2);
    Ok(())
}

/// A caller that leaves before the commit is sent needs no clean-up, and a caller that is granted a lock later
/// releases it in one call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_left_too_early_moves_no_counter_later() -> Result<()> {
    let way = Way::new().await?;
    for (looks, calls) in [(0, 1), (BEFORE_ACQUIRE, 3)] {
        way.calls.calls();
        way.looks.store(looks, Ordering::SeqCst);
        if looks == 0 {
            way.proxy.hold(Hold::Open);
        }
        let acquiring = way.ours.acquire(request("k", HOUR_MS));
        tokio::select! {
            _ = acquiring => anyhow::bail!("an answer to what was held back"),
            () = way.is_held() => {}
        }
        assert_eq!(way.proxy.deliver(), 1);
        until("all called", async || way.calls.calls_so_far() >= calls).await;
        way.is_settled().await;
        until("gone", async || way.raw.get("locks/k").await.is_none()).await;
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
    way.proxy.hold(Hold::Open);
    let elsewhere =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let ours = way.ours.clone();
    let waiting = elsewhere.spawn(async move { ours.acquire(request("k", HOUR_MS)).await });
    way.is_held().await;
    elsewhere.shutdown_background();
    assert!(waiting.await.is_err());
    until("left", async || way.ours.client_state().pending_releases() == 1).await;
    assert_eq!(way.proxy.deliver(), 1);
    // In a live runtime, another lock waits for its release as well.
    drop(try_acquire(&way.ours, "other").await?.acquired().context("a free key")?);
    way.is_settled().await;
    assert_eq!(way.fence().await, None);
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
