//! The settings of sessions in pools that `connect` made.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_postgres::{ErrorCode, LockBackend as _, PostgresBackend};

use crate::postgres::support::{
    MINUTE, Tables, connect, release, request, session, shared, take, turn,
};

/// A pool of ours, whose sessions start with these settings.
async fn ours(tables: &Tables, settings: &[&str], statement: Duration) -> Result<PostgresBackend> {
    let settings: Vec<String> =
        settings.iter().map(|setting| format!("-c%20{}", setting.replace('=', "%3D"))).collect();
    let url = format!("{}?options={}", shared().url(), settings.join("%20"));
    let options = tables.options().with_statement_timeout(statement);
    Ok(PostgresBackend::connect_with(&url, options.with_pool_size(1)).await?)
}

const SECOND: Duration = Duration::from_secs(1);

/// The limits, the isolation, and whether the server may read the whole lock table.
async fn settings(backend: &PostgresBackend) -> Result<[String; 4]> {
    let sql = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout'),
        current_setting('default_transaction_isolation'), current_setting('enable_seqscan')";
    let row = backend.pool().get().await?.query_one(sql, &[]).await?;
    Ok([row.get(0), row.get(1), row.get(2), row.get(3)])
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
    let cases: [(&[&str], [&str; 2]); 6] = [
        (&[], ["500ms", "900ms"]),
        (&["lock_timeout=7s"], ["7s", "900ms"]),
        (&["statement_timeout=7s"], ["500ms", "7s"]),
        // Ordinary waits take longer.
        (&["lock_timeout=5ms"], ["500ms", "900ms"]),
        (&["statement_timeout=400ms"], ["500ms", "900ms"]),
        (&["default_transaction_isolation=serializable"], ["500ms", "900ms"]),
    ];
    for (given, [lock, statement]) in cases {
        let expected = [lock, statement, "read committed", "off"];
        assert_eq!(settings(&ours(&tables, given, SECOND).await?).await?, expected, "{given:?}");
    }

    // A role's longer settings stay.
    let admin = connect(&shared().url()).await;
    let role = "CREATE ROLE patient LOGIN; ALTER ROLE patient SET lock_timeout = '9s'";
    admin.batch_execute(role).await?;
    let url = shared().url().replace("postgres:syncguard@", "patient@");
    let backend = PostgresBackend::connect(&url).await?;
    assert_eq!(settings(&backend).await?, ["9s", "4500ms", "read committed", "off"]);

    // Behind a pooler, other clients use the sessions too.
    let options = tables.options().with_unprepared_statements(true);
    let unprepared = PostgresBackend::connect_with(&shared().url(), options).await?;
    assert_eq!(settings(&unprepared).await?, ["0", "0", "read committed", "on"]);
    Ok(())
}

/// The server ends a statement before its sender gives up, and so reports its outcome.
#[tokio::test]
async fn a_late_statement_is_ended_by_the_server_in_time() -> Result<()> {
    // Tests share the advisory locks of a database.
    const KEY: &str = "late statement";
    let tables = Tables::fresh();
    // A tenth of this is the time for the server's answer.
    let statement = Duration::from_secs(20);
    let backend = ours(&tables, &["lock_timeout=60s"], statement).await?;
    backend.setup_schema().await?;
    // The statement is prepared from here on.
    release(&backend, take(&backend, KEY).await.lock_id).await?;
    let before = session(&*backend.pool().get().await?).await;
    let mut other = connect(&shared().url()).await;
    let _turn = turn(&mut other, KEY).await?;
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
    let backend = ours(&Tables::fresh(), &[], SECOND).await?;
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
