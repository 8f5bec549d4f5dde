//! Users, TLS, a learner's view of the cluster, and what a report says.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_etcd::contract::{IsLockedRequest, ReleaseRequest, SignalStatus};
use syncguard_etcd::{ErrorCode, EtcdBackend, LockBackend as _, LockError};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_tests::calls::{until, watch};

use crate::etcd::support::{options, request, shared, take};

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

    // Each mistake is named, at once and for good.
    let wants_ours = format!("--trusted-ca-file={}", certificate.display());
    let wants_ours = EtcdCluster::builder().flag("--client-cert-auth").flag(wants_ours);
    let wants_ours = wants_ours.tls(&certificate, &key).start(1)?;
    let expired = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?.signing_key;
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?;
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let (old, old_key) = (folder.path().join("old.pem"), folder.path().join("old-key.pem"));
    std::fs::write(&old, parameters.self_signed(&expired)?.pem())?;
    std::fs::write(&old_key, expired.serialize_pem())?;
    let expired = EtcdCluster::builder().tls(&old, &old_key).start(1)?;
    let plain = shared().url();
    let with = |url: &str, path: &Path| format!("{url}?sslrootcert={}", path.display());
    let (auth, argument) = (ErrorCode::AuthFailed, ErrorCode::InvalidArgument);
    for (wrong, code, words) in [
        (url.clone(), auth, "sslrootcert"),
        (trusting(&certificate).replace("localhost", "127.0.0.1"), auth, "other names"),
        (with(&expired.url(), &old), auth, "expired"),
        (with(&wants_ours.url(), &certificate), auth, "sslcert"),
        (url.replace("etcds", "etcd"), argument, "etcds:// in the place of etcd://"),
        (plain.replace("etcd", "etcds"), argument, "etcd:// in the place of etcds://"),
    ] {
        let backend = EtcdBackend::connect_with(&wrong, options()).await?;
        let error = backend.acquire(request("k", 1)).await.unwrap_err();
        assert_eq!(error.code(), code, "{words}: {error:?}");
        assert!(error.message().contains(words), "{words}: {error:?}");
        assert!(!error.is_retryable() && !error.is_outcome_unknown(), "{error:?}");
    }
    // A member with a better certificate serves.
    let better = format!("localhost:{},localhost:{}", wants_ours.port(0), cluster.port(0));
    for _ in 0..6 {
        let both = with(&format!("etcds://{better}"), &certificate);
        assert!(!is_locked(&EtcdBackend::connect_with(&both, options()).await?).await?);
    }
    Ok(())
}

/// A cluster whose tokens last for this time, and a backend with a login.
async fn with_tokens_of(time: &str) -> Result<(EtcdCluster, EtcdBackend)> {
    let secret = tempfile::NamedTempFile::new()?;
    std::fs::write(secret.path(), "any bytes")?;
    let file = secret.path().display();
    let token = format!("--auth-token=jwt,priv-key={file},sign-method=HS256,ttl={time}");
    let cluster = EtcdCluster::builder().flag(token).start(1)?;
    cluster.enable_users("hunter2")?;
    let url = format!("etcd://root:hunter2@127.0.0.1:{}/p", cluster.port(0));
    let user = EtcdBackend::connect_with(&url, options()).await?;
    Ok((cluster, user))
}

/// From etcd 3.5 on, a token of 300 ms is over at once, unless the login was late in its second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_over_when_it_arrives_costs_another_login() -> Result<()> {
    let (_cluster, user) = with_tokens_of("300ms").await?;
    for round in 0..5 {
        let lock = take(&user, "k", 60_000).await;
        assert_eq!(lock.fence.get(), round + 1);
        assert!(user.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    }
    Ok(())
}

/// The stream keeps the token with which it was opened. When that has expired, a new stream takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_go_on_when_a_token_has_expired() -> Result<()> {
    let (_cluster, user) = with_tokens_of("1s").await?;
    // It keeps the stream. On a busy machine a token ends before it is used.
    let first = async {
        loop {
            if let Some(first) = watch(&user, "first").await {
                break first;
            }
        }
    };
    let _first = tokio::time::timeout(Duration::from_secs(60), first).await?;
    // The token ends in its second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    until("a watch", async || watch(&user, "second").await.is_some()).await;
    assert_eq!(user.signals(), SignalStatus::Working);
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
    let drift = report.clock_drift.context("a drift")?;
    let (lowest, highest) = (drift.lowest, drift.highest);
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
