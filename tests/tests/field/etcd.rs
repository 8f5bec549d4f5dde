//! etcd.

mod long;

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_etcd::contract::{AcquireRequest, ExtendRequest, ReleaseRequest, SignalStatus};
use syncguard_etcd::{ErrorCode, EtcdBackend, EtcdOptions, LockBackend as _, LockConfig, acquire};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::proxy::FaultProxy;
use syncguard_tests::calls::until;

use crate::etcd::support::shared;
use crate::field::silent::{Silent, drops_packets};
use crate::field::{MINUTE, runtimes, take};

async fn backend(port: u16, prefix: &str) -> Result<EtcdBackend> {
    // Patient with a busy machine; the calls that fail take this long.
    let options = EtcdOptions::new().with_request_timeout(Duration::from_secs(3));
    let options = options.with_operation_timeout(Duration::from_secs(20));
    let url = format!("etcd://127.0.0.1:{port}/field-{prefix}");
    Ok(EtcdBackend::connect_with(&url, options).await?)
}

/// A full database refuses new locks and renewals, keeps what it has, and serves again when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_is_named_and_serves_again_when_there_is_room() -> Result<()> {
    let cluster = EtcdCluster::builder().flag("--quota-backend-bytes=1500000").start(1)?;
    let ours = backend(cluster.port(0), "full").await?;
    let kept = take(&ours, "kept").await?;
    // The history fills it.
    let long = format!("cycle {}", "x".repeat(500));
    let mut refused = None;
    for _ in 0..20_000 {
        match ours.acquire(AcquireRequest::new(&long, MINUTE)?).await {
            Ok(lock) => {
                let lock = lock.acquired().context("a free key")?;
                let released = ours.release(ReleaseRequest::new(lock.lock_id)).await;
                refused = released.err();
            }
            Err(error) => refused = Some(error),
        }
        if refused.is_some() {
            break;
        }
    }
    let refused = refused.context("a full database")?;
    ensure!(refused.code() == ErrorCode::ServiceUnavailable, "{refused:?}");
    ensure!(refused.message().contains("quota"), "{refused:?}");
    let report = ours.report().await?;
    ensure!(report.is_full && !report.is_corrupt, "{report:?}");
    let extended = ours.extend(ExtendRequest::new(kept, MINUTE)?).await.unwrap_err();
    ensure!(extended.message().contains("quota"), "{extended:?}");
    // etcd 3.4 refuses a transaction that only deletes as well; later versions carry it out.
    let released = ours.release(ReleaseRequest::new(kept)).await;
    let is_told = released.as_ref().err().is_none_or(|error| error.message().contains("quota"));
    ensure!(is_told, "{released:?}");
    cluster.make_room()?;
    let lock = if released.is_ok() { take(&ours, "kept").await? } else { kept };
    ensure!(ours.extend(ExtendRequest::new(lock, MINUTE)?).await?.is_extended());
    until("settled", async || ours.client_state().pending_releases() == 0).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_connection_that_drops_packets_costs_no_call() -> Result<()> {
    let proxy = FaultProxy::start(shared().port(0))?;
    let ours = backend(proxy.port(), "silent").await?;
    let other = backend(shared().port(0), "silent").await?;
    let hears = || ours.signals() == SignalStatus::Working;
    ensure!(drops_packets(&ours, &other, &proxy, hears).await? == 0);
    Ok(())
}

/// Members that take connections and never answer, or not even that, beside one that serves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_members_are_passed_over() -> Result<()> {
    let silent = Silent::of_each_kind().await?;
    let ports = [silent[0].port(), silent[1].port(), 9, shared().port(0)];
    let members = ports.map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST)).join(",");
    // Each backend draws its first member.
    for number in 0..8 {
        let options = EtcdOptions::new()
            .with_request_timeout(Duration::from_secs(1))
            .with_operation_timeout(Duration::from_secs(30));
        let url = format!("etcd://{members}/field-members");
        let ours = EtcdBackend::connect_with(&url, options).await?;
        let lock = take(&ours, &format!("key {number}")).await?;
        let began = std::time::Instant::now();
        ensure!(ours.release(ReleaseRequest::new(lock)).await?.is_released());
        ensure!(began.elapsed() < Duration::from_secs(1), "the member that serves was left");
    }
    Ok(())
}

/// etcd closes a connection that pings too often, which tonic's defaults for tests would not show before five seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_and_an_idle_watch_are_kept() -> Result<()> {
    let ours = backend(shared().port(0), "idle").await?;
    let other = backend(shared().port(0), "idle").await?;
    let held = acquire(&other, LockConfig::new("held").with_ttl(10 * MINUTE)).await?;
    let watch = ours.watch(syncguard_etcd::contract::WatchRequest::new("held".try_into()?)).await;
    let mut watch = watch.context("a watch")?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    ensure!(!watch.is_over() && ours.signals() == SignalStatus::Working);
    held.release().await?;
    tokio::time::timeout(MINUTE, watch.changed()).await?;
    ensure!(!watch.is_over(), "a signal, and not the end");
    Ok(())
}

#[test]
fn a_backend_outlives_its_runtimes() -> Result<()> {
    let port = shared().port(0);
    runtimes::one_after_another(|| Box::pin(backend(port, "runtimes")))
}
