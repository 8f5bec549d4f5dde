//! Signals: waiters learn of releases over a `Listen` stream.
//!
//! A waiter polls only after [`POLL`] here, so a signal explains each earlier answer. The emulator loses a signal now and
//! then, or answers a commit with "call already cancelled", when it has just started and another stream ends at that moment.
//! So the tests of many rounds allow a few late ones.

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_firestore::contract::{ReleaseRequest, SignalStatus};
use syncguard_firestore::gcloud_sdk::tonic::Code;
use syncguard_firestore::{
    AcquisitionOptions, FirestoreBackend, LockBackend as _, LockConfig, LockGuard, acquire,
};
use syncguard_test_effort::either;
use syncguard_test_services::proxy::FaultProxy;
use syncguard_tests::calls::{until, watch};
use tokio::task::JoinHandle;

use crate::firestore::gateway::Gateway;
use crate::firestore::support::{
    Raw, backend, backend_with, fresh, options, options_at, shared, take,
};

const MINUTES: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_secs(20);
const OFTEN: Duration = Duration::from_millis(100);
/// The longest time for a signal. Half of a pause is random, so no poll comes sooner.
const HEARD: Duration = Duration::from_secs(9);

/// Waits for a lock in the background, already watches it, and polls after pauses of this length.
async fn waiter(
    backend: &FirestoreBackend,
    pause: Duration,
) -> JoinHandle<LockGuard<FirestoreBackend>> {
    let options = AcquisitionOptions::new().with_timeout(MINUTES).with_retry_delay(pause);
    let config = LockConfig::new("k").with_ttl(MINUTES).with_acquisition(options);
    let waiting = backend.clone();
    let task = tokio::spawn(async move { acquire(&waiting, config).await.expect("a lock") });
    until("listening", async || backend.signals() != SignalStatus::Unused).await;
    task
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_by_another_process_is_heard_whoever_makes_it() -> Result<()> {
    let url = fresh();
    let (here, there) = (backend(&url).await, backend(&url).await);
    let mut late = [0; 2];
    for round in 0..10 {
        let lock = take(&there, "k", 600_000).await;
        let waiting = waiter(&here, POLL).await;
        let released = Instant::now();
        if round % 2 == 0 {
            assert!(there.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        } else {
            // Like the TypeScript library.
            Raw::new(&url).delete("locks/k").await;
        }
        let guard = waiting.await?;
        late[round % 2] += u32::from(released.elapsed() > HEARD);
        assert!(guard.release().await?.is_released());
    }
    assert!(late[0] <= 2 && late[1] <= 2, "not heard, of 5 each: {late:?}");
    Ok(())
}

#[tokio::test]
async fn many_keys_are_listened_to_over_one_stream_that_ends_when_it_is_idle() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let here = raw.backend(&url, &options());
    let mut watches = Vec::new();
    for number in 0..either(100, 1_000) {
        watches.push(watch(&here, &format!("k{number}")).await.expect("a watch"));
    }
    assert_eq!(raw.calls(), 1, "one stream");
    drop(watches);
    until("idle", async || here.signals() == SignalStatus::Unused).await;
    assert!(watch(&here, "k").await.is_some());
    assert_eq!(raw.calls(), 1, "a new one");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_severed_stream_comes_back_by_itself() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let url = fresh();
    let (here, there) = (backend_with(&url, options_at(proxy.port())).await, backend(&url).await);
    for _ in 0..2 {
        let lock = take(&there, "k", 600_000).await;
        let waiting = waiter(&here, OFTEN).await;
        until("listening", async || here.signals() == SignalStatus::Working).await;
        let mut heard = watch(&here, "k").await.expect("a watch");
        proxy.sever();
        tokio::time::timeout(Duration::from_secs(20), heard.changed()).await?;
        assert!(heard.is_over(), "whoever waits hears that nothing is heard");
        // The waiter's polls open the stream again.
        until("listening again", async || here.signals() == SignalStatus::Working).await;
        let _ = there.release(ReleaseRequest::new(lock.lock_id)).await?;
        assert!(waiting.await?.release().await?.is_released());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_go_on_while_the_stream_is_refused() -> Result<()> {
    let gateway = Gateway::start();
    gateway.set("Listen", Code::PermissionDenied, u32::MAX);
    let url = fresh();
    let (here, there) = (backend_with(&url, options_at(gateway.port)).await, backend(&url).await);
    let lock = take(&there, "k", 600_000).await;
    until("failing", async || {
        assert!(watch(&here, "k").await.is_none());
        here.signals() == SignalStatus::Failing
    })
    .await;
    let waiting = waiter(&here, OFTEN).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let _ = there.release(ReleaseRequest::new(lock.lock_id)).await?;
    drop(tokio::time::timeout(Duration::from_secs(60), waiting).await??);
    Ok(())
}

#[test]
fn the_stream_survives_the_runtime_that_it_was_made_in() -> Result<()> {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let main = runtime()?;
    let url = fresh();
    let here = main.block_on(backend(&url));
    let first = runtime()?;
    let mut heard = first.block_on(watch(&here, "k")).expect("a watch");
    drop(first);
    main.block_on(async {
        tokio::time::timeout(Duration::from_secs(20), heard.changed()).await?;
        assert!(heard.is_over());
        until("listening", async || watch(&here, "k").await.is_some()).await;
        anyhow::Ok(())
    })
}

#[test]
fn a_backend_that_is_dropped_leaves_no_task() -> Result<()> {
    let main = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    main.block_on(async {
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let here = backend(&fresh()).await;
        drop(watch(&here, "k").await.expect("a watch"));
        assert!(tasks() > 0);
        drop(here);
        let started = Instant::now();
        until("quiet", async || tasks() == 0).await;
        // The connection would be idle, and so end by itself, after ten seconds.
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    });
    Ok(())
}
