//! Members that die, stop, move, fill up, and never answer.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_etcd::contract::{ExtendRequest, ReleaseRequest, SignalStatus};
use syncguard_etcd::{
    CancellationToken, ErrorCode, EtcdBackend, EtcdOptions, LockBackend as _, LockConfig,
    LockError, acquire,
};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_tests::calls::{SOON, until, watch};
use tokio::task::JoinSet;

use crate::etcd::support::{Raw, backend, backend_at, fresh, options, request, shared, take};
use crate::troubles::MINUTE;
use crate::troubles::silent::Silent;

/// How long it takes until a cycle of acquire and release works, over and over, with short operations.
async fn outage(backend: &EtcdBackend) -> Duration {
    let began = Instant::now();
    for number in 0.. {
        let key = format!("outage-{number}");
        let lock = backend.acquire(request(&key, 60_000)).await;
        if let Ok(Some(lock)) = lock.map(syncguard::contract::AcquireResult::acquired)
            && backend.release(ReleaseRequest::new(lock.lock_id)).await.is_ok()
        {
            return began.elapsed();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no service after a minute");
    }
    unreachable!()
}

/// Service is back within 3 s of the leader's death, and within 2 s of the request timeout if it stops. The limits here
/// are wider, for a busy machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_member_serves_when_one_dies_or_stops_or_gives_up_leadership() -> Result<()> {
    const TIMEOUT: Duration = Duration::from_secs(1);
    const BUSY: Duration = Duration::from_secs(15);
    let mut cluster = EtcdCluster::start(3)?;
    let hasty = EtcdOptions::new().with_request_timeout(TIMEOUT);
    let ours = EtcdBackend::connect_with(&cluster.url(), hasty).await?;
    let held = take(&ours, "held", 120_000).await;
    outage(&ours).await;
    cluster.move_leader()?;
    let moved = outage(&ours).await;
    let leader = cluster.leader()?;
    cluster.kill(leader)?;
    let killed = outage(&ours).await;
    cluster.restart(leader)?;
    let leader = cluster.leader()?;
    cluster.pause(leader)?;
    let frozen = outage(&ours).await;
    cluster.resume(leader)?;
    println!("outage: moved {moved:?}, killed {killed:?}, frozen {frozen:?}");
    assert!(moved < BUSY && killed < BUSY && frozen < BUSY);

    // Without a quorum watches end, nothing is granted, and the lock survives all of it.
    let alone = backend_at(cluster.port(leader), "", options()).await;
    let mut heard = watch(&alone, "held").await.context("a watch")?;
    let others: Vec<_> = (0..3).filter(|member| *member != leader).collect();
    for member in &others {
        cluster.kill(*member)?;
    }
    tokio::time::timeout(SOON, heard.changed()).await.context("the end of a watch")?;
    assert!(heard.is_over());
    let refused = ours.acquire(request("other", 1)).await.unwrap_err();
    assert!(refused.is_retryable(), "{refused:?}");
    for member in &others {
        cluster.start_again(*member)?;
    }
    outage(&ours).await;
    assert!(ours.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    until("settled", async || ours.client_state().pending_releases() == 0).await;
    Ok(())
}

/// While the leadership moves, members refuse writes, from etcd 3.5 on with a status that says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_that_move_leave_no_lock_behind() -> Result<()> {
    const MOVES: usize = 12;
    let cluster = EtcdCluster::start(3)?;
    let url = format!("{}/moved", cluster.url());
    let ours = EtcdBackend::connect_with(&url, options()).await?;
    let moved = CancellationToken::new();
    let lanes: JoinSet<_> = (0..4).map(|lane| cycles(ours.clone(), lane, moved.clone())).collect();
    let cluster = tokio::task::spawn_blocking(move || {
        for _ in 0..MOVES {
            // The leader may have changed in between.
            let _ = cluster.move_leader();
        }
        cluster
    })
    .await?;
    moved.cancel();
    let mut cycles = 0;
    for (done, failed) in lanes.join_all().await {
        cycles += done;
        for error in failed {
            assert!(error.is_retryable(), "{error:?}");
        }
    }
    assert!(cycles > 0, "each lane ends one after the last move");
    let clean_up = || ours.client_state();
    until("settled", async || clean_up().pending_releases() == 0).await;
    assert_eq!(clean_up().left_to_ttl(), 0);
    let raw = Raw(&cluster);
    let left = [raw.names("moved/l/"), raw.names("moved/i/")].concat();
    assert_eq!(left, Vec::<String>::new());
    Ok(())
}

/// Acquires and releases until the token is cancelled. Returns the number of locks, and the errors.
async fn cycles(
    backend: EtcdBackend,
    lane: usize,
    until: CancellationToken,
) -> (usize, Vec<LockError>) {
    let (mut cycles, mut failed) = (0, Vec::new());
    while !until.is_cancelled() {
        let config = LockConfig::new(format!("k{lane}")).with_ttl(SOON).with_ride_out(SOON);
        match acquire(&backend, config).await {
            Ok(guard) => {
                cycles += 1;
                failed.extend(guard.release().await.err());
            }
            Err(error) => failed.push(error),
        }
    }
    (cycles, failed)
}

/// A full database refuses new locks and renewals, keeps what it has, and serves again when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_is_named_and_serves_again_when_there_is_room() -> Result<()> {
    let cluster = EtcdCluster::builder().flag("--quota-backend-bytes=1500000").start(1)?;
    let ours = backend_at(cluster.port(0), "p", options()).await;
    let kept = take(&ours, "kept", 60_000).await.lock_id;
    // The history fills it.
    let long = format!("cycle {}", "x".repeat(500));
    let mut refused = None;
    for _ in 0..20_000 {
        match ours.acquire(request(&long, 60_000)).await {
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
    assert!(refused.code() == ErrorCode::ServiceUnavailable, "{refused:?}");
    assert!(refused.message().contains("quota"), "{refused:?}");
    let report = ours.report().await?;
    assert!(report.is_full && !report.is_corrupt, "{report:?}");
    let extended = ours.extend(ExtendRequest::new(kept, MINUTE)?).await.unwrap_err();
    assert!(extended.message().contains("quota"), "{extended:?}");
    // etcd 3.4 refuses a transaction that only deletes as well; later versions carry it out.
    let released = ours.release(ReleaseRequest::new(kept)).await;
    let is_told = released.as_ref().err().is_none_or(|error| error.message().contains("quota"));
    assert!(is_told, "{released:?}");
    cluster.make_room()?;
    let lock = if released.is_ok() { take(&ours, "kept", 60_000).await.lock_id } else { kept };
    assert!(ours.extend(ExtendRequest::new(lock, MINUTE)?).await?.is_extended());
    until("settled", async || ours.client_state().pending_releases() == 0).await;
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
        let url = format!("etcd://{members}/members");
        let ours = EtcdBackend::connect_with(&url, options).await?;
        let lock = take(&ours, &format!("key {number}"), 60_000).await.lock_id;
        let began = Instant::now();
        assert!(ours.release(ReleaseRequest::new(lock)).await?.is_released());
        assert!(began.elapsed() < Duration::from_secs(1), "the member that serves was left");
    }
    Ok(())
}

/// etcd closes a connection that pings too often, which tonic's defaults for tests would not show before five seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_and_an_idle_watch_are_kept() -> Result<()> {
    let prefix = fresh();
    let (ours, other) = (backend(&prefix).await, backend(&prefix).await);
    let held = acquire(&other, LockConfig::new("held").with_ttl(10 * MINUTE)).await?;
    let mut watch = watch(&ours, "held").await.context("a watch")?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(!watch.is_over() && ours.signals() == SignalStatus::Working);
    held.release().await?;
    tokio::time::timeout(MINUTE, watch.changed()).await?;
    assert!(!watch.is_over(), "a signal, and not the end");
    Ok(())
}
