//! Users, TLS, a learner's view of the cluster, and what a report says.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_etcd::contract::{IsLockedRequest, ReleaseRequest};
use syncguard_etcd::{ErrorCode, EtcdBackend, LockBackend as _, LockError};
use syncguard_test_services::etcd::EtcdCluster;

use crate::etcd::support::{options, request, take};

async fn is_locked(backend: &EtcdBackend) -> Result<bool, LockError> {
    backend.is_locked(IsLockedRequest::new("k")?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_logs_in_again_when_a_member_has_forgotten_it() -> Result<()> {
    let mut cluster = EtcdCluster::start(1)?;
    let host = format!("127.0.0.1:{}", cluster.port(0));
    let connect = async |login: &str| {
        let url = format!("etcd://{login}{host}/p");
        EtcdBackend::connect_with(&url, options()).await
    };
    // A login that the cluster does not need is no error, and is made when it does.
    let early = connect("root:hunter2@").await?;
    let lock = take(&early, "k", 60_000).await;
    cluster.enable_users("hunter2")?;
    assert!(early.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());

    for wrong in ["", "root:hunter3@", "nobody:hunter2@"] {
        let error = connect(wrong).await?.acquire(request("k", 1)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::AuthFailed, "{wrong}: {error:?}");
        assert!(!error.is_outcome_unknown() && !format!("{error:?}").contains("hunter"));
    }
    let user = connect("root:hunter2@").await?;
    let lock = take(&user, "k", 60_000).await;
    assert!(
        user.watch(syncguard_etcd::contract::WatchRequest::new("k".try_into()?)).await.is_some()
    );
    cluster.restart(0)?;
    assert!(is_locked(&user).await?);
    assert!(user.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_trusts_whom_it_is_told_to() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    std::fs::write(&certificate, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    let cluster = EtcdCluster::builder().tls(&certificate, &key).start(1)?;
    let url = cluster.url();
    let trusting = |path: &Path| format!("{url}?sslrootcert={}", path.display());
    let by_url = EtcdBackend::connect_with(&trusting(&certificate), options()).await?;
    let lock = take(&by_url, "k", 60_000).await;
    assert!(by_url.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    let report = by_url.report().await?;
    assert!(report.clock_drift.is_some(), "{report:?}");
    let by_code = options().with_root_certificate(made.cert.der().to_vec());
    assert!(!is_locked(&EtcdBackend::connect_with(&url, by_code).await?).await?);

    let soon = Duration::from_secs(1);
    let hasty = options().with_request_timeout(soon).with_operation_timeout(soon);
    for wrong in [url.clone(), url.replace("etcds", "etcd")] {
        let backend = EtcdBackend::connect_with(&wrong, hasty.clone()).await?;
        let mut error = backend.acquire(request("k", 1)).await.unwrap_err();
        // The end of the time may have cut off the last attempt.
        for _ in 0..5 {
            if error.code() == ErrorCode::NetworkTimeout {
                error = backend.acquire(request("k", 1)).await.unwrap_err();
            }
        }
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_says_what_an_operator_should_know() -> Result<()> {
    let cluster = EtcdCluster::builder()
        .flag("--quota-backend-bytes=100000000")
        // A cluster that has just started has new members at once.
        .flag("--strict-reconfig-check=false")
        .start(3)?;
    let backend = EtcdBackend::connect_with(&cluster.url(), options()).await?;
    let report = backend.report().await?;
    assert!(report.version.starts_with("3."), "{report:?}");
    assert_eq!((report.voters, report.learners), (3, 0), "{report:?}");
    assert!(report.has_leader && !report.is_learner && !report.is_full && !report.is_corrupt);
    assert_eq!(report.quota_bytes, Some(100_000_000), "{report:?}");
    assert!(report.was_never_compacted && report.revision > 0, "{report:?}");
    let (lowest, highest) = report.clock_drift.context("a drift")?.bounds_millis();
    assert!(lowest <= 2 && highest >= -2 && highest - lowest < 700, "{report:?}");
    let learner = r#"{"peerURLs":["http://127.0.0.1:1"],"isLearner":true}"#;
    cluster.post(0, "cluster/member/add", learner)?;
    let _lock = take(&backend, "k", 1).await;
    cluster.compact(cluster.leader()?)?;
    let report = backend.report().await?;
    assert!(!report.was_never_compacted);
    assert_eq!((report.voters, report.learners), (3, 1), "{report:?}");
    Ok(())
}
