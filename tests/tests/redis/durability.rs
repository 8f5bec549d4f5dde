//! The report on a server, the refusals of strict durability, and the access rules of a user.

use anyhow::{Result, ensure};
use syncguard_redis::contract::{ReleaseRequest, SignalStatus};
use syncguard_redis::diagnostics::HealthLevel;
use syncguard_redis::inventory::ListRequest;
use syncguard_redis::{ErrorCode, Fence, LockBackend as _, LockError, RedisBackend, RedisOptions};
use syncguard_test_services::redis::{AppendOnly, RedisServer};
use syncguard_tests::calls::{all_at_once, risks};
use syncguard_tests::inventory::inventory;

use crate::redis::signals::{until, watch};
use crate::redis::support::{
    GUIDE, Raw, backend, backend_with, documented, every_operation, request, take,
};

fn strict() -> RedisOptions {
    RedisOptions::new().with_strict_durability(true)
}

/// The error of strict durability for a server.
async fn refusal(server: &RedisServer, options: RedisOptions) -> String {
    let error = RedisBackend::connect_with(&server.url(), options).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    error.message().to_owned()
}

#[tokio::test]
async fn a_safe_server_passes() -> Result<()> {
    for append_only in [AppendOnly::EverySecond, AppendOnly::Always] {
        let server = RedisServer::builder()
            .append_only(append_only)
            .max_memory("100mb", "noeviction")
            .start()?;
        let health = backend_with(&server, strict()).await.health().await;
        assert_eq!(health.level(), HealthLevel::Green, "{health:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_unsafe_is_named_and_strictly_refused() -> Result<()> {
    let snapshots = RedisServer::builder().snapshots(true).start()?;
    assert!(refusal(&snapshots, strict()).await.contains("appendonly yes"));
    // Over a client of the program, the first acquire finds out.
    let client = Raw::connect(&snapshots.url()).await.0;
    let over_client = RedisBackend::from_client(client, strict())?;
    let error = over_client.acquire(request("k", 1000)).await.unwrap_err();
    assert!(error.message().contains("appendonly yes"), "{error:?}");

    let server = RedisServer::builder()
        .append_only(AppendOnly::EverySecond)
        .max_memory("100mb", "volatile-ttl")
        .start()?;
    let message = refusal(&server, strict()).await;
    assert!(message.contains("volatile-ttl") && message.contains("noeviction"), "{message}");
    assert_eq!(risks(&backend(&server).await).await, ["eviction"]);

    server.cli(&["CONFIG", "SET", "maxmemory", "0"])?;
    server.cli(&["CONFIG", "SET", "appendfsync", "no"])?;
    assert!(refusal(&server, strict()).await.contains("appendfsync everysec"));
    server.cli(&["CONFIG", "SET", "appendfsync", "everysec"])?;
    backend_with(&server, strict()).await;

    let replica =
        RedisServer::builder().append_only(AppendOnly::EverySecond).replica_of(&server).start()?;
    assert!(refusal(&replica, strict()).await.contains("connect to the master"));
    assert!(refusal(&server, strict()).await.contains("with_wait_replicas"));
    let waiting = |count| strict().with_wait_replicas(count);
    assert!(refusal(&server, waiting(2)).await.contains("fewer replicas"));
    backend_with(&server, waiting(1)).await;
    Ok(())
}

#[tokio::test]
async fn the_documented_access_rule_is_enough() -> Result<()> {
    let rule = documented("# Access rules").split_off(3).join(" ");
    let server = RedisServer::builder().append_only(AppendOnly::EverySecond).start()?;
    let raw = Raw::connect(&server.url()).await;
    let url = format!("redis://locks:password@127.0.0.1:{}", server.port());
    let options = || strict().with_key_prefix("app").with_cleanup_in_is_locked(true);
    raw.set_user(&rule).await;
    let backend = RedisBackend::connect_with(&url, options()).await?;
    every_operation(&backend, "k").await?;

    // Every part of the rule is needed; some parts only for the report and rare cases.
    for command in ["evalsha", "get", "set", "incr", "del", "pexpire", "time"] {
        raw.set_user(&rule).await;
        let lock = take(&backend, command, 60_000).await;
        raw.set_user(&format!("-{command}")).await;
        let results = all_at_once(&backend, "other", lock.lock_id).await;
        let refused = results.iter().filter_map(|result| result.as_ref().err());
        let codes: Vec<_> = refused.map(LockError::code).collect();
        assert!(!codes.is_empty(), "{command}");
        assert!(codes.iter().all(|code| *code == ErrorCode::AuthFailed), "{command} {codes:?}");
        raw.set_user(&rule).await;
        let _ = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
    }

    // Without CLIENT TRACKING, there are no signals.
    raw.set_user("-client|tracking").await;
    let _held = take(&backend, "held", 60_000).await;
    assert!(watch(&backend, "held").await.is_none());
    assert_eq!(backend.health().await.signals, SignalStatus::Failing);
    raw.set_user("+client|tracking").await;
    until("signals are back", async || {
        watch(&backend, "held").await.is_some_and(|watch| watch.is_locked)
    })
    .await;
    assert_eq!(backend.health().await.signals, SignalStatus::Working);

    // The rule opens no setting, so `appendfsync` is unverified, which strict durability takes for the default.
    for setting in ["appendfsync", "requirepass", "masterauth", "*"] {
        let login = ["--user", "locks", "--pass", "password", "CONFIG", "GET", setting];
        let answer = server.cli(&login);
        let denied = answer.as_ref().map_or_else(ToString::to_string, Clone::clone);
        ensure!(denied.contains("NOPERM"), "{setting}: {denied}");
    }
    let unverified = async |what| {
        let health = backend.health().await;
        let mut findings = health.findings.iter().filter(|finding| finding.about == "durability");
        assert!(findings.all(|finding| finding.says.contains(what)), "{what}: {health:?}");
    };
    unverified("(appendfsync)").await;
    // Without INFO, the durability is unknown.
    raw.set_user("-info").await;
    unverified("does not say how it persists, evicts or replicates").await;
    // A listing needs the one command that the page names, and a counter nothing more.
    assert!(GUIDE.contains("`ACL SETUSER locks +scan`"));
    let listed =
        async || inventory(&backend).list_locks(ListRequest::new().with_prefix("held")).await;
    assert_eq!(listed().await.unwrap_err().code(), ErrorCode::AuthFailed);
    raw.set_user("+scan").await;
    assert_eq!(listed().await?.entries.len(), 1);
    assert_eq!(inventory(&backend).raise_counter("held", Fence::new(5)?).await?.get(), 5);
    let error = RedisBackend::connect_with(&url, options()).await.unwrap_err();
    assert!(error.message().contains("allow INFO"), "{error}");
    // The words of INFO are enough for a refusal.
    raw.set_user("+info").await;
    server.cli(&["CONFIG", "SET", "appendonly", "no"])?;
    let error = RedisBackend::connect_with(&url, options()).await.unwrap_err();
    assert!(error.message().contains("appendonly yes"), "{error}");
    let lenient = options().with_strict_durability(false);
    let _ = take(&RedisBackend::connect_with(&url, lenient).await?, "k2", 1000).await;
    Ok(())
}
