//! Waiters get signals, and only waiters.

use std::future::poll_fn;
use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_postgres::contract::SignalStatus;
use syncguard_postgres::tokio_postgres::{AsyncMessage, NoTls};
use syncguard_postgres::{LockBackend as _, PostgresBackend, PostgresOptions};
use syncguard_test_services::proxy::FaultProxy;
use tokio::time::timeout;

use super::stage::{SOON, Stage, hears, watch, watch_in_time};
use crate::postgres::support::{MINUTE, connect, over, release, request, take, url_of};

/// A commit with NOTIFY takes a lock of the whole server.
#[tokio::test]
async fn nobody_is_told_of_a_key_that_nobody_watches() -> Result<()> {
    let stage = Stage::new().await?;
    let (ours, theirs) = (stage.backend().await?, stage.backend().await?);
    let oid: i64 =
        stage.admin.query_one("SELECT 'syncguard_locks'::regclass::oid::bigint", &[]).await?.get(0);
    // A watch of another key, and a watch that has ended.
    let _other = watch_in_time(&ours, "other").await?;
    drop(watch_in_time(&ours, "key").await?);
    stage.watches(1).await?;

    let (client, mut connection) =
        syncguard_postgres::tokio_postgres::connect(&stage.server.url(), NoTls).await?;
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(said) = message {
                drop(sender.send(said.payload().to_owned()));
            }
        }
    });
    client.batch_execute(&format!("LISTEN syncguard_{oid}")).await?;
    for _ in 0..200 {
        for backend in [&ours, &theirs] {
            release(backend, take(backend, "key").await.lock_id).await?;
        }
    }
    release(&theirs, take(&theirs, "other").await.lock_id).await?;
    stage.admin.batch_execute(&format!("NOTIFY syncguard_{oid}, 'end'")).await?;

    let mut said = Vec::new();
    while said.last().is_none_or(|last| last != "end") {
        said.extend(heard.recv().await);
    }
    // One for the watched key: a number in hexadecimal digits, and nothing of the key.
    ensure!(said.len() == 2, "{said:?}");
    ensure!(u64::from_str_radix(&said[0], 16).is_ok(), "{said:?}");
    Ok(())
}

/// The same key in another table is another key. One watch gets the signals of many releases, by any client.
#[tokio::test]
async fn tables_are_told_apart_however_they_are_written() -> Result<()> {
    let stage = Stage::new().await?;
    let named = |locks: &str, fences: &str| PostgresOptions::new().with_tables(locks, fences);
    let url = stage.server.url();
    let same = named("public.syncguard_locks", "public.syncguard_fence_counters");
    let same = PostgresBackend::connect_with(&url, same).await?;
    let other = PostgresBackend::connect_with(&url, named("other_locks", "other_fences")).await?;
    other.setup_schema().await?;
    let ours = stage.backend().await?;
    let mut watch = watch_in_time(&ours, "key").await?;

    release(&other, take(&other, "key").await.lock_id).await?;
    ensure!(timeout(Duration::from_millis(200), watch.changed()).await.is_err());
    for by in [&same, &ours, &same] {
        hears(&mut watch, by, "key").await?;
    }
    Ok(())
}

/// While a release is being committed, no client can watch its key. Clients can watch other keys, and a waiter for
/// this key is told that it has to poll.
#[tokio::test]
async fn a_release_under_way_holds_nobody_else_up() -> Result<()> {
    let stage = Stage::new().await?;
    let backend = stage.backend().await?;
    let _before = watch_in_time(&backend, "before").await?;
    let session = stage.listeners().await?;
    let number = "hashtextextended('key', 'syncguard_locks'::regclass::oid::bigint)";
    stage.admin.batch_execute(&format!("SELECT pg_advisory_lock({number})")).await?;
    let (blocked, other) =
        tokio::join!(timeout(SOON, watch(&backend, "key")), watch_in_time(&backend, "other"));
    ensure!(blocked?.is_none());
    let _other = other?;
    // A session that had waited for the release would have been replaced.
    ensure!(stage.listeners().await? == session && session.len() == 1, "{session:?}");
    stage.admin.batch_execute(&format!("SELECT pg_advisory_unlock({number})")).await?;
    let _third = watch_in_time(&backend, "third").await?;
    ensure!(stage.watched().await? == 3, "nobody waits for the key any more");
    drop(watch_in_time(&backend, "key").await?);
    Ok(())
}

/// A grant without a caller is released in the background, and waiters get a signal.
#[tokio::test]
async fn a_lock_that_is_given_back_in_the_background_is_heard_of() -> Result<()> {
    let stage = Stage::new().await?;
    let proxy = FaultProxy::start(stage.server.port())?;
    let options = PostgresOptions::new().with_statement_timeout(Duration::from_secs(2));
    let theirs = PostgresBackend::connect_with(&url_of(proxy.port()), options).await?;
    release(&theirs, take(&theirs, "key").await.lock_id).await?;
    let ours = stage.backend().await?;
    let mut watching = watch_in_time(&ours, "key").await?;
    // The server grants, and the answer does not come.
    proxy.set_latency(Duration::ZERO, Duration::from_secs(3));
    ensure!(theirs.acquire(request("key", MINUTE)).await.is_err());
    proxy.set_latency(Duration::ZERO, Duration::ZERO);
    timeout(SOON, watching.changed()).await?;
    ensure!(!watching.is_over());
    Ok(())
}

#[tokio::test]
async fn the_report_says_whether_signals_work() -> Result<()> {
    let stage = Stage::new().await?;
    let backend = stage.backend().await?;
    ensure!(backend.durability_report().await?.signals == SignalStatus::Unused);
    let mut watching = watch_in_time(&backend, "key").await?;
    ensure!(backend.durability_report().await?.signals == SignalStatus::Working);

    let url = stage.server.url();
    let off = PostgresOptions::new().with_signals(false);
    let silent = PostgresBackend::connect_with(&url, off).await?;
    for backend in [
        &silent,
        &PostgresBackend::connect(&format!("{url}?signals=false")).await?,
        &over(&url, 1, PostgresOptions::new()),
    ] {
        ensure!(watch(backend, "key").await.is_none());
        ensure!(backend.durability_report().await?.signals == SignalStatus::Off);
    }
    // A backend without signals does not send them either.
    release(&silent, take(&silent, "key").await.lock_id).await?;
    ensure!(timeout(Duration::from_millis(200), watching.changed()).await.is_err());
    Ok(())
}

/// A role that may use the tables may wait: signals need no grant. A pool of the program's own only needs the
/// connection options.
#[tokio::test]
async fn signals_need_no_privileges() -> Result<()> {
    let stage = Stage::new().await?;
    let roles = "CREATE ROLE plain LOGIN; CREATE ROLE listener LOGIN;
        GRANT SELECT, INSERT, UPDATE, DELETE ON syncguard_locks TO plain;
        GRANT SELECT, INSERT, UPDATE ON syncguard_fence_counters TO plain;
        REVOKE ALL ON SCHEMA public FROM plain";
    stage.admin.batch_execute(roles).await?;
    let url_of = |role: &str| stage.server.url().replace("postgres:syncguard@", role);
    let url = url_of("plain@");
    let options = PostgresOptions::new().with_signals_over(&url_of("listener@").parse()?, NoTls);
    for waiter in [PostgresBackend::connect(&url).await?, over(&url, 2, options)] {
        stage.hands_over(&PostgresBackend::connect(&url).await?, &waiter).await?;
    }
    let client = connect(&url).await;
    ensure!(client.batch_execute("DELETE FROM syncguard_fence_counters").await.is_err());
    Ok(())
}
