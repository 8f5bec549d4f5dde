//! The answers of a real server, and our errors.

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_redis::contract::IsLockedRequest;
use syncguard_redis::{ErrorCode, LockBackend as _, LockError, RedisBackend, RedisOptions};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::RedisServer;
use syncguard_tests::calls::all_at_once;

use crate::redis::signals::{SOON, until};
use crate::redis::support::{Raw, backend_with, request, take};

const SECRET: &str = "s3cret-passw0rd";

/// Checks the code, that nothing was carried out, and that the server's text is the cause.
#[track_caller]
fn assert_refused(error: &LockError, code: ErrorCode, word: &str) {
    assert_eq!(error.code(), code, "{error:?}");
    assert!(!error.is_outcome_unknown(), "{error:?}");
    let cause = std::error::Error::source(error).expect("a cause").to_string();
    assert!(cause.contains(word), "{cause}");
    assert!(!format!("{error} {error:?}").contains(SECRET));
}

async fn acquire_fails(backend: &RedisBackend) -> LockError {
    backend.acquire(request("k", 10_000)).await.unwrap_err()
}

#[tokio::test]
async fn credentials() -> Result<()> {
    let server = RedisServer::builder().password(SECRET).start()?;
    let port = server.port();
    RedisBackend::connect(&server.url()).await?;
    for (url, word) in [
        (format!("redis://127.0.0.1:{port}"), "NOAUTH"),
        (format!("redis://:{SECRET}x@127.0.0.1:{port}"), "WRONGPASS"),
        (format!("redis://nobody:{SECRET}@127.0.0.1:{port}"), "WRONGPASS"),
    ] {
        let error = RedisBackend::connect(&url).await.unwrap_err();
        assert_refused(&error, ErrorCode::AuthFailed, word);
    }
    // A user that lost its rights while it was connected.
    let raw = Raw::connect(&server.url()).await;
    raw.send("ACL", &["SETUSER", "app", "on", &format!(">{SECRET}"), "~*", "+@all"]).await;
    let url = format!("redis://app:{SECRET}@127.0.0.1:{port}");
    let app = RedisBackend::connect(&url).await?;
    let _ = take(&app, "warm", 10_000).await;
    raw.send("ACL", &["SETUSER", "app", "-evalsha"]).await;
    assert_refused(&acquire_fails(&app).await, ErrorCode::AuthFailed, "NOPERM");
    raw.send("ACL", &["SETUSER", "app", "+evalsha", "-incr"]).await;
    let error = acquire_fails(&app).await;
    assert_eq!(error.code(), ErrorCode::AuthFailed, "{error:?}");
    raw.send("ACL", &["SETUSER", "app", "+incr", "resetkeys", "~other:*"]).await;
    assert_refused(&acquire_fails(&app).await, ErrorCode::AuthFailed, "NOPERM");
    Ok(())
}

#[tokio::test]
async fn no_server_and_too_many_clients() -> Result<()> {
    let mut server = RedisServer::builder().config("maxclients 4").start()?;
    let url = server.url();
    let mut backends = Vec::new();
    let error = loop {
        match RedisBackend::connect(&url).await {
            Ok(backend) => backends.push(backend),
            Err(error) => break error,
        }
        assert!(backends.len() < 5);
    };
    assert_eq!(error.code(), ErrorCode::RateLimited, "{error:?}");
    drop(backends);

    server.kill()?;
    let error = RedisBackend::connect(&url).await.unwrap_err();
    assert_refused(&error, ErrorCode::ServiceUnavailable, "ConnectionRefused");
    Ok(())
}

#[tokio::test]
async fn a_lost_connection_and_a_late_answer_leave_the_outcome_open() -> Result<()> {
    let server = RedisServer::start()?;
    let proxy = FaultProxy::start(server.port())?;
    let options = RedisOptions::new().with_operation_timeout(Duration::from_secs(1));
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let backend = RedisBackend::connect_with(&url, options).await?;
    let lock = take(&backend, "held", 60_000).await;

    proxy.set_latency(Duration::ZERO, Duration::from_secs(4));
    for (number, result) in all_at_once(&backend, "k", lock.lock_id).await.into_iter().enumerate() {
        let error = result.unwrap_err();
        assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
        assert!(error.is_outcome_unknown());
        assert_eq!(error.key().is_some(), [0, 3, 4].contains(&number), "{number}");
        assert_eq!(error.lock_id().is_some(), [0, 1, 2, 5].contains(&number), "{number}");
    }

    // The server closes the connection, and refuses new ones from then on.
    proxy.set_latency(Duration::ZERO, Duration::ZERO);
    until("an answer", async || {
        backend.is_locked(IsLockedRequest::new("k").unwrap()).await.is_ok()
    })
    .await;
    proxy.set_latency(Duration::ZERO, Duration::from_millis(800));
    let acquire = tokio::spawn({
        let backend = backend.clone();
        async move { backend.acquire(request("k2", 10_000)).await.unwrap_err() }
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    proxy.refuse();
    proxy.sever();
    let error = acquire.await?;
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
    assert!(error.is_outcome_unknown());
    // After a look for another connection has failed, nothing is sent and no caller waits.
    let severed = Instant::now();
    loop {
        let started = Instant::now();
        let error = acquire_fails(&backend).await;
        if !error.is_outcome_unknown() && started.elapsed() < Duration::from_millis(400) {
            assert_refused(&error, ErrorCode::ServiceUnavailable, "ConnectionRefused");
            break;
        }
        assert!(severed.elapsed() < SOON, "{error:?}");
    }
    Ok(())
}

#[tokio::test]
async fn arguments_that_cannot_work() -> Result<()> {
    let server = RedisServer::start()?;
    let cluster_url = format!("redis-cluster://127.0.0.1:{}", server.port());
    let tagged = RedisOptions::new().with_key_prefix("{app}");
    let secret_url = format!("redis://:{SECRET}@[::bad:{}", server.port());
    for (url, options) in [
        (secret_url, RedisOptions::new()),
        ("no url".to_owned(), RedisOptions::new()),
        (String::new(), RedisOptions::new()),
        (format!("{}/99", server.url()), RedisOptions::new()),
        (cluster_url.clone(), RedisOptions::new()),
        (cluster_url, tagged),
        (server.url(), RedisOptions::new().with_key_prefix("fence:")),
        (server.url(), RedisOptions::new().with_connections(0)),
        (server.url(), RedisOptions::new().with_dispose_timeout(Duration::ZERO)),
    ] {
        let error = RedisBackend::connect_with(&url, options).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{url}: {error:?}");
        assert!(!format!("{error} {error:?}").contains(SECRET));
    }
    Ok(())
}

#[tokio::test]
async fn a_single_servers_client_on_a_cluster_node() -> Result<()> {
    let node = RedisServer::builder().cluster(true).start()?;
    let tagged = RedisOptions::new().with_key_prefix("{tagged}");
    let error = acquire_fails(&backend_with(&node, tagged).await).await;
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("CLUSTERDOWN") || cause.contains("IO"), "{cause}");

    node.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
    until("cluster_state:ok", async || {
        node.cli(&["CLUSTER", "INFO"]).is_ok_and(|info| info.contains("cluster_state:ok"))
    })
    .await;
    // `connect` would have noticed; a client of the program was not checked.
    let client = Raw::connect(&node.url()).await.0;
    let options = RedisOptions::new().with_key_prefix("untagged");
    let error = acquire_fails(&RedisBackend::from_client(client, options)?).await;
    assert_refused(&error, ErrorCode::InvalidArgument, "CROSSSLOT");
    Ok(())
}
