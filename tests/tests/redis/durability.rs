//! The report on a server, the refusals of strict durability, and the access rules of a user.

use std::time::Duration;

use anyhow::Result;
use syncguard_redis::contract::{ExtendRequest, ReleaseRequest, SignalStatus};
use syncguard_redis::{
    AppendSync, DurabilityRisk, ErrorCode, Eviction, LockBackend as _, LockError, Persistence,
    RedisBackend, RedisOptions, ServerRole, WaitReplicas,
};
use syncguard_test_services::redis::{AppendOnly, RedisServer};

use crate::redis::signals::{SOON, until, watch};
use crate::redis::support::{Raw, backend, backend_with, every_operation, request, take};

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
    for (append_only, sync) in [
        (AppendOnly::EverySecond, AppendSync::EverySecond),
        (AppendOnly::Always, AppendSync::Always),
    ] {
        let server = RedisServer::builder()
            .append_only(append_only)
            .max_memory("100mb", "noeviction")
            .start()?;
        let report = backend_with(&server, strict()).await.durability_report().await?;
        assert_eq!(report.persistence, Persistence::AppendOnly(sync));
        assert_eq!(report.eviction, Eviction::Never);
        assert_eq!(report.role, ServerRole::Master { replicas: 0 });
        assert_eq!(report.risks(None), []);
    }
    Ok(())
}

#[tokio::test]
async fn what_is_unsafe_is_named_and_strictly_refused() -> Result<()> {
    let snapshots = RedisServer::builder().snapshots(true).start()?;
    assert!(refusal(&snapshots, strict()).await.contains("appendonly yes"));

    let server = RedisServer::builder()
        .append_only(AppendOnly::EverySecond)
        .max_memory("100mb", "volatile-ttl")
        .start()?;
    let message = refusal(&server, strict()).await;
    assert!(message.contains("volatile-ttl") && message.contains("noeviction"), "{message}");
    let report = backend(&server).await.durability_report().await?;
    assert_eq!(report.risks(None), [DurabilityRisk::Evicts("volatile-ttl".to_owned())]);

    server.cli(&["CONFIG", "SET", "maxmemory", "0"])?;
    server.cli(&["CONFIG", "SET", "appendfsync", "no"])?;
    assert!(refusal(&server, strict()).await.contains("appendfsync everysec"));
    server.cli(&["CONFIG", "SET", "appendfsync", "everysec"])?;
    backend_with(&server, strict()).await;

    let replica =
        RedisServer::builder().append_only(AppendOnly::EverySecond).replica_of(&server).start()?;
    assert!(refusal(&replica, strict()).await.contains("connect to the master"));
    assert!(refusal(&server, strict()).await.contains("with_wait_replicas"));
    let waiting = |count| strict().with_wait_replicas(WaitReplicas::new(count));
    assert!(refusal(&server, waiting(2)).await.contains("fewer replicas"));
    backend_with(&server, waiting(1)).await;
    Ok(())
}

/// The rule of the crate's documentation, with its line breaks.
const RULE: &str = "on >password resetkeys ~app:* resetchannels nocommands \
                    +evalsha +eval +get +set +incr +decr +del +persist +pexpire +time +ping \
                    +info +config|get +client|tracking";

#[tokio::test]
async fn the_documented_access_rule_is_enough() -> Result<()> {
    let documentation = include_str!("../../../crates/syncguard-redis/src/guide.md");
    let documentation: String = documentation
        .lines()
        .skip_while(|line| !line.contains("ACL SETUSER locks"))
        .take(3)
        .map(|line| line.trim_start_matches("//! ").trim().to_owned() + " ")
        .collect();
    assert_eq!(documentation.trim(), format!("ACL SETUSER locks {RULE}"));

    let server = RedisServer::builder().append_only(AppendOnly::EverySecond).start()?;
    let raw = Raw::connect(&server.url()).await;
    let set_user = async |rule: &str| {
        let words: Vec<&str> =
            ["SETUSER", "locks"].into_iter().chain(rule.split_whitespace()).collect();
        raw.send("ACL", &words).await;
    };
    let url = format!("redis://locks:password@127.0.0.1:{}", server.port());
    let options = || strict().with_key_prefix("app").with_cleanup_in_is_locked(true);
    set_user(RULE).await;
    let backend = RedisBackend::connect_with(&url, options()).await?;
    every_operation(&backend, "k").await?;

    // Every part of the rule is needed; some parts only for the report and rare cases.
    for command in ["evalsha", "get", "set", "incr", "del", "pexpire", "time"] {
        set_user(RULE).await;
        let lock = take(&backend, command, 60_000).await;
        set_user(&format!("-{command}")).await;
        let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(1))?;
        let results = [
            backend.acquire(request("other", 1000)).await.map(drop),
            backend.extend(extend).await.map(drop),
            backend.release(ReleaseRequest::new(lock.lock_id)).await.map(drop),
        ];
        let refused = results.iter().filter_map(|result| result.as_ref().err());
        let codes: Vec<_> = refused.map(LockError::code).collect();
        assert!(!codes.is_empty(), "{command}");
        assert!(codes.iter().all(|code| *code == ErrorCode::AuthFailed), "{command} {codes:?}");
        set_user(RULE).await;
        let _ = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
    }

    // Without CLIENT TRACKING, there are no signals.
    set_user("-client|tracking").await;
    let _held = take(&backend, "held", 60_000).await;
    assert!(watch(&backend, "held").await.is_none());
    assert_eq!(backend.durability_report().await?.signals, SignalStatus::Failing);
    set_user("+client|tracking").await;
    until("signals are back", SOON, async || {
        watch(&backend, "held").await.is_some_and(|watch| watch.is_locked())
    })
    .await;
    assert_eq!(backend.durability_report().await?.signals, SignalStatus::Working);

    // Without INFO and CONFIG GET, the durability is unknown.
    set_user("-info").await;
    let report = backend.durability_report().await?;
    assert_eq!(report.persistence, Persistence::Unverified);
    assert_eq!(report.eviction, Eviction::Unverified);
    assert_eq!(report.role, ServerRole::Unverified);
    set_user("+info -config|get").await;
    let report = backend.durability_report().await?;
    assert_eq!(report.persistence, Persistence::AppendOnly(AppendSync::Unverified));
    let error = RedisBackend::connect_with(&url, options()).await.unwrap_err();
    assert!(error.message().contains("allow INFO"), "{error}");
    let lenient = options().with_strict_durability(false);
    let _ = take(&RedisBackend::connect_with(&url, lenient).await?, "k2", 1000).await;
    Ok(())
}
