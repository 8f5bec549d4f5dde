//! The answers of a real server, and our errors.

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_redis::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_redis::{ErrorCode, LockBackend as _, LockError, RedisBackend, RedisOptions};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::{AppendOnly, RedisServer};

use crate::redis::signals::until;
use crate::redis::support::{Raw, backend, backend_with, request, take};

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
    backend(&server).await;
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
async fn out_of_memory() -> Result<()> {
    let server = RedisServer::start()?;
    let (raw, backend) = (Raw::connect(&server.url()).await, backend(&server).await);
    let held = take(&backend, "held", 60_000).await;
    raw.send("CONFIG", &["SET", "maxmemory", "100kb"]).await;
    assert_refused(&acquire_fails(&backend).await, ErrorCode::ServiceUnavailable, "OOM");
    // Operations that free memory work.
    assert!(backend.is_locked(IsLockedRequest::new("held")?).await?);
    assert!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    Ok(())
}

#[tokio::test]
async fn read_only_replicas_and_servers_without_enough_of_them() -> Result<()> {
    let mut master = RedisServer::start()?;
    let replica = RedisServer::builder().replica_of(&master).start()?;
    let on_replica = backend(&replica).await;
    let error = acquire_fails(&on_replica).await;
    assert_refused(&error, ErrorCode::ServiceUnavailable, "READONLY");

    let on_master = backend(&master).await;
    let raw = Raw::connect(&master.url()).await;
    raw.send("CONFIG", &["SET", "min-replicas-to-write", "2"]).await;
    let error = acquire_fails(&on_master).await;
    assert_refused(&error, ErrorCode::ServiceUnavailable, "NOREPLICAS");
    drop(raw);

    replica.cli(&["CONFIG", "SET", "replica-serve-stale-data", "no"])?;
    master.kill()?;
    let started = Instant::now();
    while replica.cli(&["GET", "x"]).is_ok() && started.elapsed().as_secs() < 30 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let error = acquire_fails(&on_replica).await;
    assert_refused(&error, ErrorCode::ServiceUnavailable, "MASTERDOWN");
    Ok(())
}

#[tokio::test]
async fn a_server_that_cannot_persist() -> Result<()> {
    let server =
        RedisServer::builder().config("save 3600 1").config("dbfilename no.rdb").start()?;
    let backend = backend(&server).await;
    let raw = Raw::connect(&server.url()).await;
    raw.send("SET", &["x", "y"]).await;
    // A folder in the place of the snapshot.
    std::fs::create_dir(server.folder().join("no.rdb"))?;
    raw.send("BGSAVE", &[]).await;
    let started = Instant::now();
    while raw.try_send("SET", &["x", "y"]).await.is_ok() && started.elapsed().as_secs() < 30 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_refused(&acquire_fails(&backend).await, ErrorCode::ServiceUnavailable, "MISCONF");
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_loading() -> Result<()> {
    let mut server = RedisServer::builder()
        .append_only(AppendOnly::EverySecond)
        .config("enable-debug-command yes")
        .config("aof-use-rdb-preamble no")
        .start()?;
    let raw = Raw::connect(&server.url()).await;
    raw.send("DEBUG", &["POPULATE", "20000", "filler", "100"]).await;
    raw.send("BGREWRITEAOF", &[]).await;
    let started = Instant::now();
    loop {
        let info = raw.text("INFO", &["persistence"]).await.unwrap();
        if info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0") {
            break;
        }
        assert!(started.elapsed().as_secs() < 30);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // 1 ms for each key: long enough to be met while loading.
    raw.send("CONFIG", &["SET", "key-load-delay", "200"]).await;
    raw.send("CONFIG", &["REWRITE"]).await;
    drop(raw);
    server.kill()?;
    let url = server.url();
    let restarted = std::thread::spawn(move || server.restart().map(|()| server));
    let started = Instant::now();
    let error = loop {
        match RedisBackend::connect(&url).await {
            Err(error) if format!("{error:?}").contains("LOADING") => break Some(error),
            Ok(_) => break None,
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
        assert!(started.elapsed().as_secs() < 30);
    };
    let error = error.expect("met while loading");
    assert_refused(&error, ErrorCode::ServiceUnavailable, "LOADING");
    restarted.join().unwrap()?;
    Ok(())
}

#[tokio::test]
async fn a_server_busy_with_a_script() -> Result<()> {
    let server = RedisServer::builder().config("busy-reply-threshold 20").start()?;
    let backend = backend(&server).await;
    let _ = take(&backend, "warm", 10_000).await;
    let raw = Raw::connect(&server.url()).await;
    let endless = raw.0.clone();
    let endless = tokio::spawn(async move {
        let _ = Raw(endless).try_send("EVAL", &["while true do end", "0"]).await;
    });
    until("busy", Duration::from_secs(60), async || {
        server.cli(&["PING"]).is_err_and(|error| error.to_string().contains("BUSY"))
    })
    .await;
    let error = acquire_fails(&backend).await;
    server.cli(&["SCRIPT", "KILL"])?;
    assert_refused(&error, ErrorCode::ServiceUnavailable, "BUSY");
    endless.await?;
    let _ = take(&backend, "k", 10_000).await;
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
    let started = Instant::now();
    let error = RedisBackend::connect(&url).await.unwrap_err();
    assert_refused(&error, ErrorCode::ServiceUnavailable, "ConnectionRefused");
    assert!(started.elapsed() < Duration::from_secs(5));
    Ok(())
}

#[tokio::test]
async fn a_lost_connection_and_a_late_answer_leave_the_outcome_open() -> Result<()> {
    let server = RedisServer::start()?;
    let proxy = FaultProxy::start(server.port())?;
    let options = RedisOptions::new().with_command_timeout(Duration::from_secs(1));
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let backend = RedisBackend::connect_with(&url, options).await?;
    let lock = take(&backend, "held", 60_000).await;

    proxy.set_latency(Duration::ZERO, Duration::from_secs(4));
    let started = Instant::now();
    let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(60))?;
    let errors = tokio::join!(
        async { backend.acquire(request("k", 10_000)).await.map(drop).unwrap_err() },
        async { backend.release(ReleaseRequest::new(lock.lock_id)).await.map(drop).unwrap_err() },
        async { backend.extend(extend).await.map(drop).unwrap_err() },
        async { backend.is_locked(IsLockedRequest::new("k").unwrap()).await.unwrap_err() },
        async { backend.lookup(LookupRequest::by_key("k").unwrap()).await.unwrap_err() },
    );
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    let (acquire, release, extend, is_locked, lookup) = errors;
    for error in [&acquire, &release, &extend, &is_locked, &lookup] {
        assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
        assert!(error.is_outcome_unknown());
    }
    assert!(acquire.key().is_some() && acquire.lock_id().is_some());
    assert!(release.lock_id().is_some() && extend.lock_id().is_some());
    assert!(is_locked.key().is_some() && lookup.key().is_some());

    // The server closes the connection, and refuses new ones from then on.
    proxy.set_latency(Duration::ZERO, Duration::ZERO);
    let started = Instant::now();
    while backend.is_locked(IsLockedRequest::new("k")?).await.is_err() {
        assert!(started.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
        assert!(severed.elapsed() < Duration::from_secs(20), "{error:?}");
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
    let started = Instant::now();
    while !node.cli(&["CLUSTER", "INFO"])?.contains("cluster_state:ok") {
        assert!(started.elapsed().as_secs() < 30);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // `connect` would have noticed; a client of the program was not checked.
    let client = Raw::connect(&node.url()).await.0;
    let options = RedisOptions::new().with_key_prefix("untagged");
    let error = acquire_fails(&RedisBackend::from_client(client, options)?).await;
    assert_refused(&error, ErrorCode::InvalidArgument, "CROSSSLOT");
    Ok(())
}
