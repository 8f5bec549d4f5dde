//! The settings of sessions in pools that `connect` made.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_postgres::contract::{AcquireResult, ReleaseRequest};
use syncguard_postgres::{ErrorCode, LockBackend as _, PostgresBackend};
use syncguard_test_services::postgres::PostgresServer;
use tokio::task::JoinSet;

use crate::postgres::support::{MINUTE, Tables, connect, request, session, shared, take};

/// A pool of ours, whose sessions start with these settings.
async fn ours(tables: &Tables, settings: &[&str]) -> Result<PostgresBackend> {
    ours_with(tables, settings, Duration::from_secs(1)).await
}

/// With this statement timeout.
async fn ours_with(
    tables: &Tables,
    settings: &[&str],
    statement: Duration,
) -> Result<PostgresBackend> {
    let settings: Vec<String> =
        settings.iter().map(|setting| format!("-c%20{}", setting.replace('=', "%3D"))).collect();
    let url = format!("{}?options={}", shared().url(), settings.join("%20"));
    let options = tables.options().with_statement_timeout(statement);
    Ok(PostgresBackend::connect_with(&url, options.with_pool_size(1)).await?)
}

async fn settings(backend: &PostgresBackend) -> Result<[String; 3]> {
    let sql = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout'),
        current_setting('default_transaction_isolation')";
    let row = backend.pool().get().await?.query_one(sql, &[]).await?;
    Ok([row.get(0), row.get(1), row.get(2)])
}

#[tokio::test]
async fn connections_are_named_after_the_holder() -> Result<()> {
    let tables = Tables::fresh();
    let options = tables.options().with_holder("web-7f9c");
    let backend = PostgresBackend::connect_with(&shared().url(), options).await?;
    let sql = "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    let row = backend.pool().get().await?.query_one(sql, &[]).await?;
    assert_eq!(row.get::<_, &str>(0), "syncguard web-7f9c");
    Ok(())
}

#[tokio::test]
async fn our_sessions_bound_their_waits_and_keep_longer_bounds() -> Result<()> {
    let tables = Tables::fresh();
    let cases: [(&[&str], [&str; 3]); 6] = [
        (&[], ["500ms", "900ms", "read committed"]),
        (&["lock_timeout=7s"], ["7s", "900ms", "read committed"]),
        (&["statement_timeout=7s"], ["500ms", "7s", "read committed"]),
        // Ordinary waits take longer.
        (&["lock_timeout=5ms"], ["500ms", "900ms", "read committed"]),
        (&["statement_timeout=400ms"], ["500ms", "900ms", "read committed"]),
        (&["default_transaction_isolation=serializable"], ["500ms", "900ms", "read committed"]),
    ];
    for (given, expected) in cases {
        assert_eq!(settings(&ours(&tables, given).await?).await?, expected, "{given:?}");
    }

    // A role's longer settings stay.
    let admin = connect(&shared().url()).await;
    let role = format!("role_of_{}", tables.locks);
    admin
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; ALTER ROLE {role} SET lock_timeout = '9s'"
        ))
        .await?;
    let url = shared().url().replace("postgres:syncguard@", &format!("{role}@"));
    let backend = PostgresBackend::connect(&url).await?;
    assert_eq!(settings(&backend).await?, ["9s", "4500ms", "read committed"]);

    // Behind a pooler, other clients use the sessions too.
    let options = tables.options().with_unprepared_statements(true);
    let unprepared = PostgresBackend::connect_with(&shared().url(), options).await?;
    assert_eq!(settings(&unprepared).await?, ["0", "0", "read committed"]);
    Ok(())
}

/// Ordinary contention under a role with serializable transactions causes no rollback.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_role_is_no_stricter_in_a_crowd() -> Result<()> {
    const CROWD: usize = 16;
    // A database of its own, for its counters.
    let server = PostgresServer::builder().config("fsync = off").start()?;
    server.psql("ALTER ROLE postgres SET default_transaction_isolation = 'serializable'")?;
    let url = format!("{}?setup_schema=true&pool_size={CROWD}", server.url());
    let backend = PostgresBackend::connect(&url).await?;
    let mut crowd = JoinSet::new();
    for _ in 0..CROWD {
        let backend = backend.clone();
        crowd.spawn(async move {
            let mut held = 0;
            for _ in 0..100 {
                let acquired = backend.acquire(request("key", MINUTE)).await?;
                if let AcquireResult::Acquired(lock) = acquired {
                    held += 1;
                    let release = ReleaseRequest::new(lock.lock_id);
                    ensure!(backend.release(release).await?.is_released());
                }
            }
            Ok(held)
        });
    }
    let mut held = 0;
    while let Some(task) = crowd.join_next().await {
        held += task??;
    }
    ensure!(held >= CROWD, "held {held} times");
    backend.pool().close();
    // Sessions report their statistics when they end.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let sql = "SELECT xact_rollback FROM pg_stat_database WHERE datname = 'postgres'";
    assert_eq!(server.psql(sql)?, "0");
    Ok(())
}

/// The server ends a statement before its sender gives up, and so reports its outcome.
#[tokio::test]
async fn a_late_statement_is_ended_by_the_server_in_time() -> Result<()> {
    // Tests share the advisory locks of a database.
    const KEY: &str = "late statement";
    let tables = Tables::fresh();
    // A tenth of this is the time for the server's answer.
    let statement = Duration::from_secs(10);
    let backend = ours_with(&tables, &["lock_timeout=60s"], statement).await?;
    backend.setup_schema().await?;
    // The statement is prepared from here on.
    let lock = take(&backend, KEY).await;
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    let before = session(&*backend.pool().get().await?).await;
    let mut other = connect(&shared().url()).await;
    let turn = other.transaction().await?;
    turn.execute("SELECT pg_advisory_xact_lock(hashtext($1))", &[&KEY]).await?;
    let started = Instant::now();
    let error = backend.acquire(request(KEY, MINUTE)).await.expect_err("an error");
    let took = started.elapsed();
    ensure!(error.code() == ErrorCode::NetworkTimeout, "{error:?}");
    ensure!(!error.is_outcome_unknown(), "{error:?}");
    ensure!(took >= statement * 9 / 10, "{took:?}");
    ensure!(session(&*backend.pool().get().await?).await == before, "another session");
    Ok(())
}

/// The creation of tables has no time limit.
#[tokio::test]
async fn setting_up_may_take_longer_than_a_statement() -> Result<()> {
    let mut other = connect(&shared().url()).await;
    let backend = ours(&Tables::fresh(), &[]).await?;
    let turn = other.transaction().await?;
    // Only one client at a time creates tables.
    turn.execute(&format!("SELECT pg_advisory_xact_lock({})", 0x5379_6e63_4775_6172_i64), &[])
        .await?;
    let setup = tokio::spawn({
        let backend = backend.clone();
        async move { backend.setup_schema().await }
    });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    ensure!(!setup.is_finished(), "{:?}", setup.await?);
    turn.commit().await?;
    setup.await??;
    // Only for that one transaction.
    assert_eq!(settings(&backend).await?[..2], ["500ms", "900ms"]);
    Ok(())
}
