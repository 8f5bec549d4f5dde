//! Members that die, stop and move.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_etcd::contract::{IsLockedRequest, ReleaseRequest};
use syncguard_etcd::{
    CancellationToken, ErrorCode, EtcdBackend, EtcdOptions, LockBackend as _, LockConfig,
    LockError, LockId, acquire,
};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::proxy::FaultProxy;
use syncguard_tests::calls::{SOON, all_at_once, until, watch};
use tokio::task::JoinSet;

use crate::etcd::support::{Raw, backend, backend_at, fresh, options, request, shared, take};

/// Locks and counters, without the counters.
pub(crate) fn locks(prefix: &str) -> Vec<String> {
    let raw = Raw(shared());
    [raw.names(&format!("{prefix}/l/")), raw.names(&format!("{prefix}/i/"))].concat()
}

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_bounded_keeps_no_lock_and_is_forgotten() -> Result<()> {
    const SOON: Duration = Duration::from_secs(1);
    let proxy = FaultProxy::start(shared().port(0))?;
    let prefix = fresh();
    let direct = backend(&prefix).await;
    let hasty = EtcdOptions::new().with_request_timeout(SOON).with_operation_timeout(2 * SOON);
    let through = backend_at(proxy.port(), &prefix, hasty).await;
    let held = take(&direct, "k", 60_000).await;
    let reach = async || through.is_locked(IsLockedRequest::new("k").unwrap()).await.is_ok();
    until("connected", reach).await;
    for (silent, code) in
        [(true, ErrorCode::NetworkTimeout), (false, ErrorCode::ServiceUnavailable)]
    {
        if silent {
            proxy.freeze(true);
        } else {
            proxy.refuse();
            proxy.sever();
        }
        all_fail(&through, held.lock_id, code).await?;
        proxy.freeze(false);
        proxy.accept()?;
        until("connected again", reach).await;
    }
    let clean_up = || through.client_state();
    until("settled", async || clean_up().pending_releases() == 0).await;
    assert_eq!(clean_up().left_to_ttl(), 0);
    let _ = through.release(ReleaseRequest::new(held.lock_id)).await?;
    assert_eq!(locks(&prefix), Vec::<String>::new());
    Ok(())
}

/// Runs every operation on a server that cannot answer, and checks their errors and times.
async fn all_fail(backend: &EtcdBackend, id: LockId, code: ErrorCode) -> Result<()> {
    let began = Instant::now();
    let results = all_at_once(backend, "other", id).await;
    // The operation timeout is two seconds; the rest is for a busy machine.
    assert!(began.elapsed() < Duration::from_secs(22), "{:?}", began.elapsed());
    for result in results {
        let error = result.err().context("an answer of a server that cannot answer")?;
        // A last try that begins at the end of the operation's time has no time left for any answer.
        assert!([code, ErrorCode::NetworkTimeout].contains(&error.code()), "{error:?}");
        assert!(error.is_retryable(), "{error:?}");
    }
    Ok(())
}
