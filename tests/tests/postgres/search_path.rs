//! A role that may create objects in a schema of the search path, and shadows PostgreSQL's functions with its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard::fenced::{Dialect, FenceStatement, create_table};
use syncguard_postgres::contract::{ExtendRequest, IsLockedRequest, LookupRequest, WatchRequest};
use syncguard_postgres::inventory::ListRequest;
use syncguard_postgres::{
    Fence, Key, LockBackend as _, PostgresBackend, PostgresOptions, check_fence_sql, schema_sql,
    setup_schema,
};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_tests::polling::poll_times;

use crate::postgres::support::{MINUTE, connect, extend, over_pool, pool, release, request, take};

/// The functions that the sources of the backend call.
fn names() -> Result<BTreeSet<String>> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/syncguard-postgres/src");
    let mut text = String::new();
    for file in ["statements.rs", "record.rs", "schema.rs"] {
        text += &fs::read_to_string(sources.join(file))?;
    }
    for entry in fs::read_dir(sources.join("sql"))? {
        text += &fs::read_to_string(entry?.path())?;
    }
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices('(') {
        let before = text[..at].rsplit(|c: char| !c.is_ascii_lowercase() && c != '_').next();
        names.extend(before.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    Ok(names)
}

struct Stage {
    server: PostgresServer,
    options: PostgresOptions,
}

impl Stage {
    /// The role `app` has its tables in a schema that comes after `evil`, and PostgreSQL's own comes last.
    fn new() -> Result<Self> {
        let server = PostgresServer::builder().config("fsync = off").start()?;
        server.psql("CREATE ROLE app LOGIN")?;
        let names: Vec<String> = names()?.into_iter().collect();
        ensure!(names.iter().any(|name| name == "hashtext"), "{names:?}");
        let evil =
            include_str!("search_path.sql").replace("{names}", &format!("{{{}}}", names.join(",")));
        let evil = format!(
            "{evil} CREATE SCHEMA home AUTHORIZATION app;
             ALTER ROLE app SET search_path = evil, home, pg_catalog"
        );
        server.psql(&evil)?;
        Ok(Self {
            server,
            options: PostgresOptions::new().with_tables("home.locks", "home.fences"),
        })
    }

    fn url(&self) -> String {
        format!("postgres://app@127.0.0.1:{}/postgres", self.server.port())
    }
}

/// Runs each statement of the backend at least once.
async fn do_everything(backend: &PostgresBackend, key: &str) -> Result<()> {
    backend.setup_schema().await.context("setup_schema")?;
    let report = backend.durability_report().await.context("durability")?;
    ensure!(report.open_schema.is_none(), "{report:?}");

    let lock = take(backend, key).await;
    ensure!(backend.acquire(request(key, MINUTE)).await?.is_busy());
    ensure!(backend.is_locked(IsLockedRequest::new(key)?).await?);
    let of_key = backend.lookup(LookupRequest::by_key(key)?).await?;
    ensure!(of_key.is_some_and(|info| info.fence == lock.fence));
    let of_id = backend.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?;
    ensure!(of_id.is_some_and(|info| info.fence == lock.fence));
    extend(backend, lock.lock_id).await?;
    let known = backend.lookup(LookupRequest::by_key(key)?).await?.context("a lock")?;
    let expected = ExtendRequest::new(lock.lock_id, MINUTE)?.with_expected_expiry(known.expires_at);
    ensure!(backend.extend(expected).await?.is_extended());

    let mut work = backend.pool().get().await?;
    let transaction = work.transaction().await?;
    backend.check_fence(&transaction, lock.lock_id, lock.fence).await?;
    transaction.commit().await?;
    drop(work);

    let watch = backend.watch(WatchRequest::new(Key::new(key)?)).await;
    release(backend, lock.lock_id).await?;
    if let Some(mut watch) = watch {
        watch.changed().await;
    }

    // An expired lock is taken over, and removed by a reader.
    let short = Duration::from_millis(1);
    for _ in 0..2 {
        ensure!(backend.acquire(request(key, short)).await?.acquired().is_some());
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }
    ensure!(!backend.is_locked(IsLockedRequest::new(key)?).await?);

    // An acquire that is given up on the wire, and its clean-up. On a busy machine the answer may come at once.
    while let Some(result) = poll_times(backend.acquire(request(key, MINUTE)), 1).await {
        release(backend, result?.acquired().context("a free key")?.lock_id).await?;
    }
    ensure!(backend.client_state().drained(MINUTE).await == 0);
    ensure!(!backend.is_locked(IsLockedRequest::new(key)?).await?);

    let _ = take(backend, key).await;
    let inventory = backend.inventory().expect("an inventory");
    let request = ListRequest::new().with_prefix(key);
    ensure!(inventory.list_locks(request.clone()).await?.entries.len() == 1);
    ensure!(inventory.list_counters(request).await?.entries.len() == 1);
    let fence = Fence::new(1000)?;
    inventory.raise_counter(key, fence).await?;
    ensure!(inventory.fence_counter(key).await? == Some(fence));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_function_of_another_role_is_called() -> Result<()> {
    let stage = Stage::new()?;
    let url = stage.url();
    // The overloads take effect: a statement in the usual form fails.
    let plain = connect(&url).await.query("SELECT hashtext('a')", &[]).await.unwrap_err();
    ensure!(plain.code().is_some_and(|code| code.code() == "42501"), "{plain}");

    let options = || stage.options.clone();
    let ours = PostgresBackend::connect_with(&url, options()).await?;
    do_everything(&ours, "ours").await.context("a pool of ours")?;
    let theirs = pool(&url, 4);
    setup_schema(&theirs, &options()).await?;
    let theirs = over_pool(theirs, options());
    do_everything(&theirs, "theirs").await.context("a pool of the user's")?;
    // As behind PgBouncer.
    let unprepared = options().with_unprepared_statements(true);
    let unprepared = PostgresBackend::connect_with(&url, unprepared).await?;
    do_everything(&unprepared, "unprepared").await.context("unprepared")?;

    // Also the statements that users copy.
    let user = connect(&url).await;
    user.batch_execute(&schema_sql(&options().with_tables("home.copied", "home.copied_fences"))?)
        .await?;
    let lock = take(&ours, "copied").await;
    let (id, fence) = (lock.lock_id.expose().to_owned(), lock.fence.to_string());
    let rows = user.query(&check_fence_sql(&options())?, &[&id, &fence]).await?;
    ensure!(rows.len() == 1);
    user.batch_execute(&create_table(Dialect::Postgres, "home.fenced")?).await?;
    let rows = FenceStatement::for_rows(Dialect::Postgres, "home.fenced")?;
    let column = FenceStatement::for_column(Dialect::Postgres, "home.fenced", "resource", "fence")?;
    for (statement, fence, answer) in
        [(&rows, 7_i64, 7_i64), (&rows, 6, 7), (&column, 8, 8), (&rows, 7, 8)]
    {
        let row = user.query_one(statement.sql(), &[&"it", &fence]).await?;
        ensure!(row.get::<_, i64>(0) == answer);
    }
    Ok(())
}

/// If the tables are found by name alone, a role that may create objects in an earlier schema can shadow them.
#[tokio::test]
async fn a_schema_that_is_open_to_others_is_named() -> Result<()> {
    let server = PostgresServer::start()?;
    server.psql(
        "CREATE ROLE app LOGIN; CREATE ROLE eve; CREATE SCHEMA early; CREATE SCHEMA late;
         CREATE SCHEMA home AUTHORIZATION app; GRANT USAGE ON SCHEMA early TO PUBLIC;
         GRANT USAGE ON SCHEMA late TO PUBLIC; ALTER ROLE app SET search_path = early, home, late",
    )?;
    let url = format!("postgres://app@127.0.0.1:{}/postgres", server.port());
    let by_name = PostgresBackend::connect(&url).await?;
    let in_home = PostgresOptions::new().with_tables("home.locks", "home.fences");
    let in_home = PostgresBackend::connect_with(&url, in_home).await?;
    let open = async |backend: &PostgresBackend| {
        anyhow::Ok(backend.durability_report().await?.open_schema)
    };
    ensure!(open(&by_name).await?.is_none(), "nobody else may create");

    server.psql("GRANT CREATE ON SCHEMA late TO eve")?;
    ensure!(open(&by_name).await?.as_deref() == Some("late"), "the tables are not there yet");
    let tables = schema_sql(&PostgresOptions::new())?;
    server.psql(&format!("SET search_path = home; {tables} SET ROLE postgres"))?;
    server.psql("ALTER TABLE home.syncguard_locks OWNER TO app; ALTER TABLE home.syncguard_fence_counters OWNER TO app")?;
    ensure!(open(&by_name).await?.is_none(), "the tables are found before");

    server.psql("GRANT CREATE ON SCHEMA early TO PUBLIC")?;
    ensure!(open(&by_name).await?.as_deref() == Some("early"));
    ensure!(open(&in_home).await?.is_none(), "they are not looked for");
    let lock = take(&by_name, "key").await;
    release(&by_name, lock.lock_id).await?;
    Ok(())
}
