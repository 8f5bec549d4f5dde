//! The emulator of Azure: faults of the server, the time, and a fenced write.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMode, UpdateVersion};
use syncguard_object_store::contract::{IsLockedRequest, ReleaseRequest};
use syncguard_object_store::{
    ErrorCode, LockBackend as _, ObjectStoreBackend, ObjectStoreOptions, acquire, object_store,
};
use syncguard_test_services::azurite::AzuriteServer;

use crate::object_store::support::{Raw, backend_at, fresh, options, shared};
use crate::troubles::silent::Silent;

/// How long it takes until a cycle of acquire and release works.
async fn outage(backend: &ObjectStoreBackend) -> Duration {
    let began = Instant::now();
    for number in 0.. {
        if let Ok(guard) = acquire(backend, format!("outage-{number}")).await
            && guard.release().await.is_ok()
        {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no service after a minute");
    }
    began.elapsed()
}

/// The emulator keeps its data in memory, so only a stop leaves locks as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_goes_on_after_a_stop_and_a_restart() -> Result<()> {
    let mut server = AzuriteServer::start()?;
    let hasty = ObjectStoreOptions::new()
        .with_request_timeout(Duration::from_secs(1))
        .with_operation_timeout(Duration::from_secs(2));
    let ours = backend_at(server.port(), "p", hasty.clone()).await;
    let guard = acquire(&ours, "held").await?;
    server.pause()?;
    let error = ours.is_locked(IsLockedRequest::new("held")?).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
    server.resume()?;
    assert!(outage(&ours).await < Duration::from_secs(15));
    guard.release().await?;
    server.kill()?;
    let error = ours.is_locked(IsLockedRequest::new("held")?).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
    // A connect to a store that is away succeeds, and the first acquire checks it.
    let late = backend_at(server.port(), "q", hasty).await;
    server.restart()?;
    assert!(outage(&ours).await < Duration::from_secs(15));
    assert!(outage(&late).await < Duration::from_secs(15));
    Ok(())
}

/// The answers tell whole seconds, and probes at the right moments more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bounds_of_the_time_get_narrow() -> Result<()> {
    let ours = backend_at(shared().port(), &fresh(), options()).await;
    let width = || {
        let (lowest, highest) =
            ours.clock_drift().map_or((0, i64::MAX), |drift| (drift.lowest, drift.highest));
        assert!(lowest < 500 && highest > -500, "the same machine: {lowest} to {highest}");
        highest - lowest
    };
    let began = Instant::now();
    while width() > 250 {
        assert!(began.elapsed() < Duration::from_secs(120), "the bounds stay wide: {}", width());
        ours.is_locked(IsLockedRequest::new("any")?).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The write of the guide's page: the data carry the fence, and the tag ties the write to what was read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_write_to_the_same_bucket_refuses_an_old_fence() -> Result<()> {
    let (store, name) = (Raw::new().into_store(), format!("{}/data", fresh()).into());
    let write = async |fence: u64, text: &str| -> Result<bool> {
        let (mode, last) = match store.get(&name).await {
            Ok(found) => {
                let tag = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: None };
                let stored = String::from_utf8(found.bytes().await?.to_vec())?;
                let last = stored.split(' ').next().context("a fence")?.parse()?;
                (PutMode::Update(tag), last)
            }
            Err(object_store::Error::NotFound { .. }) => (PutMode::Create, 0),
            Err(error) => return Err(error.into()),
        };
        if fence < last {
            return Ok(false);
        }
        let body = format!("{fence} {text}");
        Ok(store.put_opts(&name, body.into(), mode.into()).await.is_ok())
    };
    assert!(write(7, "of the first holder").await?);
    assert!(write(8, "of its heir").await?);
    assert!(!write(7, "of the first holder, too late").await?);
    assert!(write(8, "of its heir").await?);
    Ok(())
}

/// A lock of one process is released by another one that knows nothing but its id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_id_is_enough() -> Result<()> {
    let prefix = fresh();
    let ours = backend_at(shared().port(), &prefix, options()).await;
    let other = backend_at(shared().port(), &prefix, options()).await;
    let guard = acquire(&ours, "k").await?;
    let id = guard.lock_id();
    assert!(other.release(ReleaseRequest::new(id)).await?.is_released());
    assert!(!ours.is_locked(IsLockedRequest::new("k")?).await?);
    Ok(())
}

/// Each operation ends within its time, with an error that may be tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_silent_costs_no_more_than_the_time_of_an_operation() -> Result<()> {
    for silent in Silent::of_each_kind().await? {
        let second = Duration::from_secs(1);
        let options = ObjectStoreOptions::new().with_request_timeout(second);
        let options = options.with_operation_timeout(2 * second).with_connect_timeout(second);
        let began = Instant::now();
        let backend = backend_at(silent.port(), "p", options).await;
        let error = acquire(&backend, "k").await.unwrap_err();
        ensure!(error.is_retryable(), "{error:?}");
        ensure!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
    Ok(())
}

/// A container that is not there is no bucket of free keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_not_there_is_named_as_such() -> Result<()> {
    let url = AzuriteServer::url_at(shared().port(), &fresh()).replace("//locks/", "//nobody/");
    let error = ObjectStoreBackend::connect_with(&url, options()).await.unwrap_err();
    ensure!(error.code() == ErrorCode::InvalidArgument, "{error:?}");
    ensure!(error.message().contains("no such bucket"), "{error:?}");
    Ok(())
}
