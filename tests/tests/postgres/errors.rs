//! Errors of a real server, and their codes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_postgres::contract::{AcquireResult, ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard_postgres::inventory::ListRequest;
use syncguard_postgres::{
    ErrorCode, Fence, LockBackend as _, LockConfig, LockError, LockId, PostgresBackend,
    PostgresOptions, acquire,
};
use syncguard_test_services::postgres::{Authentication, PostgresServer};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_tests::inventory::inventory;
use tokio::task::JoinSet;

use crate::postgres::support::{
    MINUTE, SOON, Tables, acquiring, connect, extend, is_refused, over, pin, release, request,
    session, shared, stage, take, turn, url_of, waiters, waits,
};

const KEY: &str = "a-very-private-key";

/// Checks the code, and that no text has private data.
#[track_caller]
fn expect(error: &LockError, code: ErrorCode, unknown: bool) {
    let text = format!("{error} {error:?} {}", chain(error));
    assert_eq!(error.code(), code, "{text}");
    assert_eq!(error.is_outcome_unknown(), unknown, "{text}");
    for private in [KEY, PostgresServer::PASSWORD, "wrong-secret"] {
        assert!(!text.contains(private), "{text}");
    }
    if let Some(lock_id) = error.lock_id() {
        assert!(!text.contains(lock_id.expose()), "{text}");
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or(String::new(), |source| format!("{source}: {}", chain(source)))
}

async fn acquire_error(backend: &PostgresBackend, key: &str) -> LockError {
    backend.acquire(request(key, MINUTE)).await.expect_err("an error")
}

/// The shared server, with settings for the session.
fn with_settings(settings: &str) -> String {
    format!("{}?options={}", shared().url(), settings.replace(' ', "%20").replace('=', "%3D"))
}

#[tokio::test]
async fn bad_log_ins() -> Result<()> {
    let server = PostgresServer::builder().authentication(Authentication::Scram).start()?;
    let password = PostgresServer::PASSWORD;
    for (log_in, database, code) in [
        ("postgres:wrong-secret", "postgres", Some(ErrorCode::AuthFailed)),
        ("postgres", "postgres", Some(ErrorCode::InvalidArgument)),
        (&format!("nobody:{password}"), "postgres", Some(ErrorCode::AuthFailed)),
        (&format!("postgres:{password}"), "nowhere", Some(ErrorCode::InvalidArgument)),
        (&format!("postgres:{password}"), "postgres", None),
    ] {
        let url = format!("postgres://{log_in}@127.0.0.1:{}/{database}", server.port());
        match (PostgresBackend::connect(&url).await, code) {
            (Err(error), Some(code)) => expect(&error, code, false),
            (result, code) => ensure!(result.is_ok() && code.is_none(), "{code:?} was expected"),
        }
    }
    Ok(())
}

/// A server that refuses connections, and one that accepts them and sends nothing.
#[tokio::test]
async fn nobody_answers() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let short = Duration::from_millis(200);
    let options = PostgresOptions::new().with_pool_wait_timeout(short).with_connect_timeout(short);
    let url = url_of(proxy.port());
    let connect = || PostgresBackend::connect_with(&url, options.clone());
    proxy.freeze(true);
    let error = tokio::time::timeout(SOON, connect()).await?.unwrap_err();
    expect(&error, ErrorCode::NetworkTimeout, false);
    proxy.refuse();
    let error = connect().await.unwrap_err();
    expect(&error, ErrorCode::ServiceUnavailable, false);
    ensure!(error.is_retryable());
    Ok(())
}

#[tokio::test]
async fn no_tables_and_no_permission() -> Result<()> {
    let tables = Tables::fresh();
    let backend = over(&shared().url(), 1, tables.options());
    let error = acquire_error(&backend, KEY).await;
    expect(&error, ErrorCode::InvalidArgument, false);
    assert!(error.message().contains("setup_schema"), "{error}");
    drop(tables.backend(1).await);
    // The same backend works once the tables exist.
    let _ = take(&backend, KEY).await;

    let admin = connect(&shared().url()).await;
    let _ = admin.batch_execute("CREATE ROLE stranger LOGIN").await;
    let url = shared().url().replace("postgres:syncguard@", "stranger@");
    let backend = over(&url, 1, tables.options());
    expect(&acquire_error(&backend, KEY).await, ErrorCode::AuthFailed, false);
    Ok(())
}

#[tokio::test]
async fn too_many_connections() -> Result<()> {
    let server = PostgresServer::builder().config("max_connections = 5").start()?;
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(connect(&server.url()).await);
    }
    let backend = over(&server.url(), 2, PostgresOptions::new());
    expect(&acquire_error(&backend, KEY).await, ErrorCode::RateLimited, false);
    Ok(())
}

/// Another session holds the key's advisory lock for too long.
#[tokio::test]
async fn lock_and_statement_timeouts() -> Result<()> {
    // The tests of this server share its advisory locks.
    const KEY: &str = "taken for long";
    let tables = Tables::made().await;
    let mut holder = connect(&shared().url()).await;
    let turn = turn(&mut holder, KEY).await?;
    let admin = connect(&shared().url()).await;

    // Our limit, which ends the statement while there is still time to report it.
    let options = tables.options().with_statement_timeout(Duration::from_secs(3));
    let backend = over(&shared().url(), 1, options);
    let started = Instant::now();
    expect(&acquire_error(&backend, KEY).await, ErrorCode::ServiceUnavailable, false);
    ensure!(started.elapsed() >= Duration::from_millis(1500), "{:?}", started.elapsed());
    ensure!(backend.pool().status().size == 1, "the connection is still good");

    // The role's own limit.
    let url = with_settings("-c statement_timeout=50ms");
    let backend = over(&url, 1, tables.options());
    expect(&acquire_error(&backend, KEY).await, ErrorCode::NetworkTimeout, false);

    // A cancellation by an operator.
    let backend = over(&shared().url(), 1, tables.options());
    let waiting = tokio::spawn(async move { acquire_error(&backend, KEY).await });
    waiters(&admin, &tables.locks, 1).await;
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1::text || '%' AND pid <> pg_backend_pid()";
    admin.execute(cancel, &[&tables.locks]).await?;
    expect(&waiting.await?, ErrorCode::NetworkTimeout, false);

    turn.rollback().await?;
    ensure!(tables.counter(&admin, KEY).await == 0, "somebody got it after all");
    Ok(())
}

/// The message tells a locked table from a locked row.
#[tokio::test]
async fn what_another_session_holds_is_named() -> Result<()> {
    let (tables, _, _) = stage(1).await;
    let options = tables.options().with_statement_timeout(Duration::from_secs(1));
    let backend = PostgresBackend::connect_with(&shared().url(), options).await?;
    let lock = take(&backend, KEY).await;
    let mut other = connect(&shared().url()).await;
    for (sql, says) in [
        (format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", tables.locks), "to a whole table"),
        (format!("SELECT FROM {} FOR UPDATE", tables.locks), "to the row of the lock"),
    ] {
        let transaction = other.transaction().await?;
        transaction.batch_execute(&sql).await?;
        let error = backend.release(ReleaseRequest::new(lock.lock_id)).await.unwrap_err();
        expect(&error, ErrorCode::ServiceUnavailable, false);
        ensure!(error.message().contains(says), "{error}");
        transaction.rollback().await?;
    }
    release(&backend, lock.lock_id).await
}

#[tokio::test]
async fn a_read_only_session() -> Result<()> {
    let tables = Tables::fresh();
    let writer = tables.backend(1).await;
    let lock = take(&writer, KEY).await;
    let url = with_settings("-c default_transaction_read_only=on");
    let backend = over(&url, 1, tables.options());
    // Reads are allowed.
    ensure!(backend.lookup(LookupRequest::by_key(KEY)?).await?.is_some());
    for error in [
        acquire_error(&backend, KEY).await,
        backend.release(ReleaseRequest::new(lock.lock_id)).await.unwrap_err(),
        backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await.unwrap_err(),
    ] {
        expect(&error, ErrorCode::ServiceUnavailable, false);
    }
    release(&writer, lock.lock_id).await
}

/// With any isolation level of the role, races end with one winner and without errors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_isolation_is_no_error() -> Result<()> {
    for level in ["repeatable\\ read", "serializable"] {
        let tables = Tables::made().await;
        let url = with_settings(&format!("-c default_transaction_isolation={level}"));
        let backend = over(&url, 8, tables.options());
        for round in 1..=4 {
            let mut racers = JoinSet::new();
            for _ in 0..16 {
                let backend = backend.clone();
                racers.spawn(async move { backend.acquire(request(KEY, MINUTE)).await });
            }
            let mut won = Vec::new();
            while let Some(racer) = racers.join_next().await {
                if let AcquireResult::Acquired(lock) = racer?? {
                    won.push(lock);
                }
            }
            assert_eq!(won.len(), 1);
            assert_eq!(won[0].fence.get(), round);
            release(&backend, won[0].lock_id).await?;
        }
    }
    Ok(())
}

/// A real deadlock, whose victim is our statement: it succeeds when it is resent.
#[tokio::test]
async fn a_deadlock_is_tried_again() -> Result<()> {
    const KEY: &str = "deadlock";
    let tables = Tables::made().await;
    let options = tables.options().with_statement_timeout(MINUTE);
    let backend = over(&with_settings("-c deadlock_timeout=10ms"), 1, options);
    let admin = connect(&shared().url()).await;
    let _ = take(&backend, KEY).await;
    tables.age(&admin, KEY, 120_000).await;

    // A third session has the advisory lock, we wait for it, and the other session, which has the row, queues behind
    // us. When we get the lock we want the row: our request closes the circle, and we alone detect it.
    let mut third = connect(&shared().url()).await;
    let first = turn(&mut third, KEY).await?;
    let mut other = connect(&with_settings("-c deadlock_timeout=1h")).await;
    let session = session(&other).await;
    let transaction = pin(&mut other, &tables).await?;
    let acquire = acquiring(&backend, KEY);
    waiters(&admin, &tables.locks, 1).await;
    let queue = "SELECT pg_advisory_xact_lock(hashtext($1))";
    let (queued, ()) = tokio::join!(transaction.execute(queue, &[&KEY]), async {
        waits(&admin, session).await;
        first.commit().await.expect("the turn is over");
    });
    queued?;
    transaction.commit().await?;
    let lock = acquire.await??.acquired().expect("it had expired");
    assert_eq!(lock.fence.get(), 2);
    Ok(())
}

#[tokio::test]
async fn corrupt_rows_are_reported_and_left_alone() -> Result<()> {
    let (tables, backend, admin) = stage(1).await;
    let changes = [
        "fence = '1'",
        "fence = 'x'",
        "lock_id = 'odd ' || key",
        "expires_at_ms = -1",
        "expires_at_ms = 9223372036854775807",
        "acquired_at_ms = -1",
        "acquired_at_ms = 9223372036854775807",
        "user_key = ''",
    ];
    for (number, change) in changes.iter().enumerate() {
        for expired in [false, true] {
            let key = format!("{KEY} {number} {expired}");
            let lock = take(&backend, &key).await;
            if expired {
                tables.age(&admin, &key, 120_000).await;
            }
            let corrupt = format!("UPDATE {} SET {change} WHERE key = $1", tables.locks);
            admin.execute(&corrupt, &[&key]).await?;
            let row = format!("SELECT t::text FROM {} AS t WHERE key = $1", tables.locks);
            let before: String = admin.query_one(&row, &[&key]).await?.get(0);

            let mut answers = vec![
                backend.acquire(request(&key, MINUTE)).await.map(drop),
                backend.lookup(LookupRequest::by_key(&key)?).await.map(drop),
            ];
            if !change.starts_with("lock_id") {
                let release = ReleaseRequest::new(lock.lock_id);
                answers.push(backend.release(release).await.map(drop));
                let extend = ExtendRequest::new(lock.lock_id, MINUTE)?;
                answers.push(backend.extend(extend).await.map(drop));
            }
            for answer in answers {
                expect(&answer.unwrap_err(), ErrorCode::Internal, false);
            }
            let after: String = admin.query_one(&row, &[&key]).await?.get(0);
            assert_eq!(before, after);
        }
    }
    let foreign = take(&backend, "foreign").await;
    let rename = format!("UPDATE {} SET user_key = 'other' WHERE key = 'foreign'", tables.locks);
    admin.batch_execute(&rename).await?;
    for by in [LookupRequest::by_key("foreign")?, LookupRequest::by_lock_id(foreign.lock_id)] {
        expect(&backend.lookup(by).await.unwrap_err(), ErrorCode::Internal, false);
    }
    let counter = format!("INSERT INTO {} VALUES ('fence:negative', -5)", tables.fences);
    admin.batch_execute(&counter).await?;
    let inventory = inventory(&backend);
    for answer in [
        backend.acquire(request("negative", MINUTE)).await.map(drop),
        inventory.fence_counter("negative").await.map(drop),
        inventory.raise_counter("negative", Fence::new(9)?).await.map(drop),
    ] {
        expect(&answer.unwrap_err(), ErrorCode::Internal, false);
    }
    assert_eq!(inventory.list_counters(ListRequest::new()).await?.corrupt.len(), 1);
    assert_eq!(tables.counter(&admin, "negative").await, -5);
    Ok(())
}

/// A session that forgot its prepared statements, as after `DISCARD ALL`.
#[tokio::test]
async fn forgotten_statements_are_prepared_again() -> Result<()> {
    let backend = Tables::fresh().backend(1).await;
    let lock = take(&backend, KEY).await;
    ensure!(is_refused(&backend, KEY).await);
    backend.pool().get().await?.batch_execute("DEALLOCATE ALL").await?;
    ensure!(is_refused(&backend, KEY).await);
    backend.pool().get().await?.batch_execute("DISCARD ALL").await?;
    extend(&backend, lock.lock_id).await?;
    release(&backend, lock.lock_id).await?;
    ensure!(backend.pool().status().size == 1);
    Ok(())
}

#[tokio::test]
async fn a_closed_pool() -> Result<()> {
    let backend = Tables::fresh().backend(1).await;
    backend.pool().close();
    expect(&acquire_error(&backend, KEY).await, ErrorCode::ServiceUnavailable, false);
    let error = backend.release(ReleaseRequest::new(LockId::generate()?)).await.unwrap_err();
    expect(&error, ErrorCode::ServiceUnavailable, false);
    Ok(())
}

/// A statement that takes the table away, for a while or for good; whether that is a loss; and what brings it back.
const TAKES_AWAY: &[(&str, bool, &str)] = &[
    ("ALTER TABLE {} RENAME TO {}_moved", true, "ALTER TABLE {}_moved RENAME TO {}"),
    ("ALTER TABLE {} RENAME fence TO other", true, "ALTER TABLE {} RENAME other TO fence"),
    (
        "ALTER TABLE {} RENAME TO {}_moved; CREATE MATERIALIZED VIEW {} AS SELECT * FROM {}_moved",
        true,
        "DROP MATERIALIZED VIEW {}; ALTER TABLE {}_moved RENAME TO {}",
    ),
    (
        "ALTER TABLE {} ADD CONSTRAINT full_up CHECK (expires_at_ms < 0) NOT VALID",
        false,
        "ALTER TABLE {} DROP CONSTRAINT full_up",
    ),
    ("DROP TABLE {}", true, ""),
];

#[tokio::test]
async fn a_table_that_is_gone_or_another_one_ends_a_hold_at_once() -> Result<()> {
    let (tables, backend, admin) = stage(2).await;
    for (at, (takes, is_loss, brings)) in TAKES_AWAY.iter().enumerate() {
        let config = LockConfig::new(format!("k{at}")).with_ttl(MINUTE);
        let mut guard = acquire(&backend, config).await?;
        admin.batch_execute(&takes.replace("{}", &tables.locks)).await?;
        let error = guard.extend(MINUTE).await.expect_err(takes);
        ensure!(error.is_record_lost() == *is_loss, "{takes}: {error:?}");
        ensure!(guard.is_lost() == *is_loss, "{takes}: {error:?}");
        admin.batch_execute(&brings.replace("{}", &tables.locks)).await?;
        ensure!(*is_loss || guard.extend(MINUTE).await?.is_extended(), "{brings}");
    }
    Ok(())
}
