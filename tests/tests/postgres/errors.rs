//! Errors of a real server, and their codes.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_postgres::contract::{AcquireResult, ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{
    ErrorCode, LockBackend as _, LockError, LockId, PostgresBackend, PostgresOptions,
};
use syncguard_test_services::postgres::{Authentication, PostgresServer};
use syncguard_test_services::proxy::FaultProxy;
use tokio::task::JoinSet;

use crate::postgres::support::{
    MINUTE, Tables, connect, is_refused, pool, request, session, shared, take, url_of, waiters,
    waits,
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

async fn acquire_error(backend: &PostgresBackend) -> LockError {
    backend.acquire(request(KEY, MINUTE)).await.expect_err("an error")
}

/// The shared server, with settings for the session.
fn with_settings(settings: &str) -> String {
    format!("{}?options={}", shared().url(), settings.replace(' ', "%20").replace('=', "%3D"))
}

#[tokio::test]
async fn bad_log_ins() -> Result<()> {
    let server = PostgresServer::builder().authentication(Authentication::Scram).start()?;
    let url = server.url();
    let wrong = url.replace(PostgresServer::PASSWORD, "wrong-secret");
    expect(&PostgresBackend::connect(&wrong).await.unwrap_err(), ErrorCode::AuthFailed, false);
    let missing = url.replace(&format!(":{}@", PostgresServer::PASSWORD), "@");
    let error = PostgresBackend::connect(&missing).await.unwrap_err();
    expect(&error, ErrorCode::InvalidArgument, false);
    let nobody = url.replace("postgres:", "nobody:").replacen("nobody:", "postgres:", 1);
    expect(&PostgresBackend::connect(&nobody).await.unwrap_err(), ErrorCode::AuthFailed, false);
    let nowhere = url.replace("/postgres", "/nowhere").replacen("//nowhere", "//postgres", 1);
    let error = PostgresBackend::connect(&nowhere).await.unwrap_err();
    expect(&error, ErrorCode::InvalidArgument, false);
    Ok(PostgresBackend::connect(&url).await.map(drop)?)
}

#[tokio::test]
async fn bad_urls() {
    for url in
        ["", "postgres://", "postgres://u:wrong-secret@h:port/db", "redis://x", "a b=wrong-secret"]
    {
        let error = PostgresBackend::connect(url).await.unwrap_err();
        expect(&error, ErrorCode::InvalidArgument, false);
    }
}

#[tokio::test]
async fn nobody_listens() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    proxy.refuse();
    let error = PostgresBackend::connect(&url_of(proxy.port())).await.unwrap_err();
    expect(&error, ErrorCode::ServiceUnavailable, false);
    assert!(error.is_retryable());
    Ok(())
}

/// A server that accepts connections and sends nothing.
#[tokio::test]
async fn nobody_answers() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    proxy.freeze(true);
    let started = Instant::now();
    let short = Duration::from_millis(200);
    let options = PostgresOptions::new().with_pool_wait_timeout(short).with_connect_timeout(short);
    let error = PostgresBackend::connect_with(&url_of(proxy.port()), options).await;
    expect(&error.unwrap_err(), ErrorCode::NetworkTimeout, false);
    ensure!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    Ok(())
}

#[tokio::test]
async fn no_tables_and_no_permission() -> Result<()> {
    let tables = Tables::fresh();
    let backend = PostgresBackend::from_pool(pool(&shared().url(), 1), tables.options())
        .expect("options in range");
    let error = acquire_error(&backend).await;
    expect(&error, ErrorCode::InvalidArgument, false);
    assert!(error.message().contains("setup_schema"), "{error}");
    drop(tables.backend(1).await);
    // The same backend works once the tables exist.
    let _ = take(&backend, KEY).await;

    let admin = connect(&shared().url()).await;
    let _ = admin.batch_execute("CREATE ROLE stranger LOGIN").await;
    let url = shared().url().replace("postgres:syncguard@", "stranger@");
    let backend =
        PostgresBackend::from_pool(pool(&url, 1), tables.options()).expect("options in range");
    expect(&acquire_error(&backend).await, ErrorCode::AuthFailed, false);
    Ok(())
}

#[tokio::test]
async fn too_many_connections() -> Result<()> {
    let server = PostgresServer::builder().config("max_connections = 5").start()?;
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(connect(&server.url()).await);
    }
    let backend = PostgresBackend::from_pool(pool(&server.url(), 2), PostgresOptions::new())
        .expect("options in range");
    expect(&acquire_error(&backend).await, ErrorCode::RateLimited, false);
    Ok(())
}

/// Another session holds the key's advisory lock for too long.
#[tokio::test]
async fn lock_and_statement_timeouts() -> Result<()> {
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    let mut holder = connect(&shared().url()).await;
    let turn = holder.transaction().await?;
    turn.execute("SELECT pg_advisory_xact_lock(hashtext($1))", &[&KEY]).await?;
    let admin = connect(&shared().url()).await;

    // Our limit, which ends the statement while there is still time to report it.
    let options = tables.options().with_statement_timeout(Duration::from_secs(3));
    let backend =
        PostgresBackend::from_pool(pool(&shared().url(), 1), options).expect("options in range");
    let started = Instant::now();
    expect(&acquire_error(&backend).await, ErrorCode::ServiceUnavailable, false);
    ensure!(started.elapsed() >= Duration::from_millis(1500), "{:?}", started.elapsed());
    ensure!(backend.pool().status().size == 1, "the connection is still good");

    // The role's own limit.
    let url = with_settings("-c statement_timeout=50ms");
    let backend =
        PostgresBackend::from_pool(pool(&url, 1), tables.options()).expect("options in range");
    expect(&acquire_error(&backend).await, ErrorCode::NetworkTimeout, false);

    // A cancellation by an operator.
    let backend = PostgresBackend::from_pool(pool(&shared().url(), 1), tables.options())
        .expect("options in range");
    let waiting = tokio::spawn(async move { acquire_error(&backend).await });
    waiters(&admin, &tables.locks, 1).await;
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1::text || '%' AND pid <> pg_backend_pid()";
    admin.execute(cancel, &[&tables.locks]).await?;
    expect(&waiting.await?, ErrorCode::NetworkTimeout, false);

    turn.rollback().await?;
    ensure!(tables.counter(&admin, KEY).await == 0, "somebody got it after all");
    Ok(())
}

#[tokio::test]
async fn a_read_only_session() -> Result<()> {
    let tables = Tables::fresh();
    let writer = tables.backend(1).await;
    let lock = take(&writer, KEY).await;
    let url = with_settings("-c default_transaction_read_only=on");
    let backend =
        PostgresBackend::from_pool(pool(&url, 1), tables.options()).expect("options in range");
    // Reads are allowed.
    ensure!(backend.lookup(LookupRequest::by_key(KEY)?).await?.is_some());
    expect(&acquire_error(&backend).await, ErrorCode::ServiceUnavailable, false);
    let error = backend.release(ReleaseRequest::new(lock.lock_id)).await.unwrap_err();
    expect(&error, ErrorCode::ServiceUnavailable, false);
    let error = backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await.unwrap_err();
    expect(&error, ErrorCode::ServiceUnavailable, false);
    ensure!(writer.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

/// With any isolation level of the role, races end with one winner and without errors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_isolation_is_no_error() -> Result<()> {
    for level in ["repeatable read", "serializable"] {
        let tables = Tables::fresh();
        drop(tables.backend(1).await);
        let url = with_settings(&format!(
            "-c default_transaction_isolation={}",
            level.replace(' ', "\\ ")
        ));
        let backend =
            PostgresBackend::from_pool(pool(&url, 8), tables.options()).expect("options in range");
        for round in 1..=10 {
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
            ensure!(backend.release(ReleaseRequest::new(won[0].lock_id)).await?.is_released());
        }
    }
    Ok(())
}

/// A real deadlock, whose victim is our statement: it succeeds when it is resent.
#[tokio::test]
async fn a_deadlock_is_tried_again() -> Result<()> {
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    let url = with_settings("-c deadlock_timeout=10ms");
    let options = tables.options().with_statement_timeout(MINUTE);
    let backend = PostgresBackend::from_pool(pool(&url, 1), options).expect("options in range");
    let admin = connect(&shared().url()).await;
    let _ = take(&backend, KEY).await;
    tables.age(&admin, KEY, 120_000).await;

    // A third session has the advisory lock, we wait for it, and the other session, which has the row, queues behind
    // us. When we get the lock we want the row: our request closes the circle, and we alone detect it.
    let turn = "SELECT pg_advisory_xact_lock(hashtext($1))";
    let mut third = connect(&shared().url()).await;
    let first = third.transaction().await?;
    first.execute(turn, &[&KEY]).await?;
    let mut other = connect(&with_settings("-c deadlock_timeout=1h")).await;
    let session = session(&other).await;
    let transaction = other.transaction().await?;
    transaction.execute(&format!("SELECT FROM {} FOR UPDATE", tables.locks), &[]).await?;
    let acquire = tokio::spawn({
        let backend = backend.clone();
        async move { backend.acquire(request(KEY, MINUTE)).await }
    });
    waiters(&admin, &tables.locks, 1).await;
    let (queued, ()) = tokio::join!(transaction.execute(turn, &[&KEY]), async {
        waits(&admin, session).await;
        first.commit().await.expect("the turn is over");
    });
    queued?;
    transaction.commit().await?;
    let lock = acquire.await??.acquired().expect("it had expired");
    assert_eq!(lock.fence.get(), 2);
    Ok(())
}

/// A trigger raises rare SQLSTATEs, with the row's values in the detail.
#[tokio::test]
async fn sqlstates_from_the_server() -> Result<()> {
    let cases = [
        ("22003", ErrorCode::InvalidArgument),
        ("23514", ErrorCode::InvalidArgument),
        ("40P01", ErrorCode::ServiceUnavailable),
        ("42501", ErrorCode::AuthFailed),
        ("53100", ErrorCode::ServiceUnavailable),
        ("53200", ErrorCode::ServiceUnavailable),
        ("53400", ErrorCode::ServiceUnavailable),
        ("54000", ErrorCode::Internal),
        ("55006", ErrorCode::ServiceUnavailable),
        ("57014", ErrorCode::NetworkTimeout),
        ("58030", ErrorCode::ServiceUnavailable),
        ("XX001", ErrorCode::Internal),
        ("P0001", ErrorCode::Internal),
        ("ZZ999", ErrorCode::Internal),
    ];
    let tables = Tables::fresh();
    let backend = tables.backend(1).await;
    let admin = connect(&shared().url()).await;
    for (sqlstate, code) in cases {
        raise(&admin, &tables, sqlstate).await?;
        let error = acquire_error(&backend).await;
        expect(&error, code, false);
        assert!(format!("{error:?}").contains(sqlstate), "{error:?}");
    }
    // Another session was faster each time, which is contention.
    raise(&admin, &tables, "40001").await?;
    ensure!(backend.acquire(request(KEY, MINUTE)).await?.is_locked());
    let drop = format!("DROP TRIGGER fails ON {}", tables.locks);
    admin.batch_execute(&drop).await?;
    assert_eq!(tables.counter(&admin, KEY).await, 0, "a failed acquire used up a fence");
    ensure!(backend.pool().status().size == 1, "the connection is still good");
    let _ = take(&backend, KEY).await;
    Ok(())
}

async fn raise(admin: &Client, tables: &Tables, sqlstate: &str) -> Result<()> {
    let Tables { locks, .. } = tables;
    let sql = format!(
        "CREATE OR REPLACE FUNCTION {locks}_fails() RETURNS trigger LANGUAGE plpgsql AS $$
           BEGIN RAISE EXCEPTION 'made to fail' USING ERRCODE = '{sqlstate}',
             DETAIL = NEW.key || NEW.lock_id, HINT = NEW.user_key; END $$;
         DROP TRIGGER IF EXISTS fails ON {locks};
         CREATE TRIGGER fails BEFORE INSERT ON {locks} FOR EACH ROW EXECUTE FUNCTION {locks}_fails()"
    );
    Ok(admin.batch_execute(&sql).await?)
}

/// A trigger can put a row's values into any text, under any SQLSTATE: none of it gets into our errors, or through
/// the driver into the log.
#[tokio::test]
async fn what_a_trigger_says_goes_no_further() -> Result<()> {
    const HELD: &str = "another-private-key";
    log_of_the_driver();
    let tables = Tables::fresh();
    let backend =
        PostgresBackend::connect_with(&shared().url(), tables.options().with_pool_size(2)).await?;
    backend.setup_schema().await?;
    let admin = connect(&shared().url()).await;
    let held = take(&backend, HELD).await;
    let no_triggers = format!("ALTER TABLE {} DISABLE TRIGGER USER", tables.locks);
    let cases = [
        ("P0001", ErrorCode::Internal),
        ("55P03", ErrorCode::ServiceUnavailable),
        ("08006", ErrorCode::ServiceUnavailable),
        ("23505", ErrorCode::InvalidArgument),
        ("42601", ErrorCode::Internal),
        ("42P01", ErrorCode::InvalidArgument),
        ("53300", ErrorCode::RateLimited),
        ("57P01", ErrorCode::ServiceUnavailable),
        ("XX000", ErrorCode::Internal),
        ("TELLS", ErrorCode::Internal),
    ];
    for (sqlstate, code) in cases {
        tell_all(&admin, &tables, sqlstate).await?;
        let lock_id = LockId::generate()?;
        let acquire = backend.acquire(request(KEY, MINUTE).with_lock_id(lock_id)).await;
        let extend = backend.extend(ExtendRequest::new(held.lock_id, MINUTE)?).await;
        let release = backend.release(ReleaseRequest::new(held.lock_id)).await;
        for error in [acquire.map(drop), extend.map(drop), release.map(drop)] {
            let error = error.expect_err("raised");
            expect(&error, code, false);
            let text = format!("{error} {error:?} {}", chain(&error));
            for private in [HELD, lock_id.expose(), held.lock_id.expose()] {
                assert!(!text.contains(private), "{text}");
            }
            // The remaining text is useful.
            assert!(text.contains(&format!("SQLSTATE {sqlstate}")), "{text}");
        }
        admin.batch_execute(&no_triggers).await?;
    }
    let logged = said_by_the_driver().join("\n");
    for private in [KEY, HELD, held.lock_id.expose()] {
        assert!(!logged.contains(private), "{logged}");
    }
    ensure!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    Ok(())
}

/// Makes every write to the lock table fail, and notify all listeners of the reason.
async fn tell_all(admin: &Client, tables: &Tables, sqlstate: &str) -> Result<()> {
    let Tables { locks, .. } = tables;
    let sql = format!(
        "CREATE OR REPLACE FUNCTION {locks}_tells() RETURNS trigger LANGUAGE plpgsql AS $$
           DECLARE r record;
           BEGIN
             IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;
             RAISE NOTICE 'noticed % %', r.key, r.lock_id;
             RAISE WARNING 'warned % %', r.key, r.lock_id;
             RAISE EXCEPTION 'raised % %', r.key, r.lock_id USING ERRCODE = '{sqlstate}',
               DETAIL = r.key, HINT = r.lock_id, COLUMN = r.key, CONSTRAINT = r.key,
               DATATYPE = r.key, TABLE = r.key, SCHEMA = r.lock_id;
           END $$;
         DROP TRIGGER IF EXISTS tells ON {locks};
         CREATE TRIGGER tells BEFORE INSERT OR UPDATE OR DELETE ON {locks}
           FOR EACH ROW EXECUTE FUNCTION {locks}_tells()"
    );
    Ok(admin.batch_execute(&sql).await?)
}

/// The log lines of tokio-postgres about messages from the server: those of the tests above have these words.
fn said_by_the_driver() -> Vec<String> {
    DRIVER_SAID.lock().unwrap().clone()
}

static DRIVER_SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Listens to the driver, for all tests of this process.
fn log_of_the_driver() {
    struct Listener;

    impl log::Log for Listener {
        fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
            metadata.target().starts_with("tokio_postgres")
        }

        fn log(&self, record: &log::Record<'_>) {
            if self.enabled(record.metadata()) {
                let text = record.args().to_string();
                if ["noticed", "warned", "raised"].iter().any(|word| text.contains(word)) {
                    DRIVER_SAID.lock().unwrap().push(text);
                }
            }
        }

        fn flush(&self) {}
    }

    log::set_logger(&Listener).expect("the only logger");
    log::set_max_level(log::LevelFilter::Info);
}

#[tokio::test]
async fn a_lock_id_of_another_key() -> Result<()> {
    let backend = Tables::fresh().backend(1).await;
    let held = take(&backend, "another").await;
    let error = backend.acquire(request(KEY, MINUTE).with_lock_id(held.lock_id)).await.unwrap_err();
    expect(&error, ErrorCode::InvalidArgument, false);
    let text = format!("{error:?}");
    assert!(!text.contains(held.lock_id.expose()), "{text}");
    Ok(())
}

#[tokio::test]
async fn corrupt_rows_are_reported_and_left_alone() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(1).await;
    let admin = connect(&shared().url()).await;
    let changes = [
        "fence = '1'",
        "fence = 'x'",
        "lock_id = 'odd ' || key",
        "expires_at_ms = -1",
        "expires_at_ms = 9223372036854775807",
        "acquired_at_ms = -1",
        "user_key = ''",
    ];
    for (number, change) in changes.iter().enumerate() {
        for expired in [false, true] {
            let key = format!("{KEY} {number} {expired}");
            let lock = take(&backend, &key).await;
            if expired {
                tables.age(&admin, &key, 120_000).await;
            }
            admin
                .execute(&format!("UPDATE {} SET {change} WHERE key = $1", tables.locks), &[&key])
                .await?;
            let row = format!("SELECT t::text FROM {} AS t WHERE key = $1", tables.locks);
            let before: String = admin.query_one(&row, &[&key]).await?.get(0);

            expect(
                &backend.acquire(request(&key, MINUTE)).await.unwrap_err(),
                ErrorCode::Internal,
                false,
            );
            let lookup = backend.lookup(LookupRequest::by_key(&key)?).await;
            expect(&lookup.unwrap_err(), ErrorCode::Internal, false);
            if !change.starts_with("lock_id") {
                let release = backend.release(ReleaseRequest::new(lock.lock_id)).await;
                expect(&release.unwrap_err(), ErrorCode::Internal, false);
                let extend = backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await;
                expect(&extend.unwrap_err(), ErrorCode::Internal, false);
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
    let error = backend.acquire(request("negative", MINUTE)).await.unwrap_err();
    expect(&error, ErrorCode::Internal, false);
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
    ensure!(backend.extend(ExtendRequest::new(lock.lock_id, MINUTE)?).await?.is_extended());
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    ensure!(backend.pool().status().size == 1);
    Ok(())
}

#[tokio::test]
async fn a_closed_pool() -> Result<()> {
    let backend = Tables::fresh().backend(1).await;
    backend.pool().close();
    expect(&acquire_error(&backend).await, ErrorCode::ServiceUnavailable, false);
    let error = backend.release(ReleaseRequest::new(LockId::generate()?)).await.unwrap_err();
    expect(&error, ErrorCode::ServiceUnavailable, false);
    Ok(())
}
