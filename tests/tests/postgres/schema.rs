//! The creation of the tables.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::contract::{AcquireRequest, AcquireResult, Holder, LookupRequest};
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{
    Contention, ErrorCode, LockBackend as _, PostgresBackend, PostgresOptions, schema_sql,
    setup_schema,
};
use tokio::task::JoinSet;

use crate::postgres::support::{
    MINUTE, Tables, connect, is_refused, over, pool, release, request, shared, take,
};
use crate::postgres::typescript;

/// The schema in the specification of the TypeScript library.
pub(crate) fn their_ddl(tables: &Tables) -> String {
    let Tables { locks, fences } = tables;
    format!(
        "CREATE TABLE IF NOT EXISTS {locks} (key TEXT PRIMARY KEY, lock_id TEXT NOT NULL,
           expires_at_ms BIGINT NOT NULL, acquired_at_ms BIGINT NOT NULL, fence TEXT NOT NULL,
           user_key TEXT NOT NULL);
         CREATE UNIQUE INDEX IF NOT EXISTS idx_{locks}_lock_id ON {locks}(lock_id);
         CREATE INDEX IF NOT EXISTS idx_{locks}_expires ON {locks}(expires_at_ms);
         CREATE TABLE IF NOT EXISTS {fences} (fence_key TEXT PRIMARY KEY, fence BIGINT NOT NULL DEFAULT 0,
           key_debug TEXT);"
    )
}

async fn works(url: &str, options: &PostgresOptions, key: &str) -> Result<()> {
    let backend = over(url, 1, options.clone());
    release(&backend, take(&backend, key).await.lock_id).await
}

/// All properties of the tables and indexes that could differ.
async fn shape(client: &Client, tables: &Tables) -> Result<String> {
    let sql = "SELECT string_agg(line, E'\n' ORDER BY line) FROM (
        SELECT format('%s %s %s %s', attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull)
          FROM pg_attribute WHERE attrelid IN ($1::text::regclass, $2::text::regclass) AND attnum > 0 AND NOT attisdropped
        UNION ALL SELECT pg_get_indexdef(indexrelid)
          FROM pg_index WHERE indrelid IN ($1::text::regclass, $2::text::regclass)) AS lines(line)";
    Ok(client.query_one(sql, &[&tables.locks, &tables.fences]).await?.get(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_set_it_up_at_once() -> Result<()> {
    for theirs in [false, true] {
        let tables = Tables::fresh();
        let mut racers = JoinSet::new();
        for racer in 0..25 {
            let tables = tables.clone();
            racers.spawn(async move {
                let pool = pool(&shared().url(), 1);
                // All clients have a connection before the first begins.
                drop(pool.get().await?);
                if theirs && racer % 5 == 0 {
                    // The other library has no lock for this, and some of its attempts fail. Ours can lose one
                    // attempt to each of its clients, and has one more than there are.
                    let _ = pool.get().await?.batch_execute(&their_ddl(&tables)).await;
                }
                setup_schema(&pool, &tables.options()).await?;
                anyhow::Ok(())
            });
        }
        while let Some(racer) = racers.join_next().await {
            racer??;
        }
        works(&shared().url(), &tables.options(), "key").await?;
    }
    Ok(())
}

/// Set-up that also adds columns.
async fn upgrade(tables: &Tables) -> Result<()> {
    let options = tables.options().with_schema_upgrade(true);
    Ok(setup_schema(&pool(&shared().url(), 1), &options).await?)
}

/// The other library's tables have no column for holders.
fn without_holder(shape: &str, locks: &str) -> String {
    shape.replace(&format!("{locks} holder text f\n"), "")
}

/// The other library's index on the expiry, which no statement reads, is not made, and an upgrade drops it.
fn without_index(shape: &str) -> String {
    let lines: Vec<_> = shape.lines().filter(|line| !line.contains("(expires_at_ms)")).collect();
    lines.join("\n")
}

/// The text is a migration that leaves nothing for `setup_schema` to do, and both make what the other library makes.
#[tokio::test]
async fn it_makes_what_the_other_library_makes() -> Result<()> {
    let client = connect(&shared().url()).await;
    let (ours, theirs) = (Tables::fresh(), Tables::fresh());
    client.batch_execute(&schema_sql(&ours.options())?).await?;
    let made = shape(&client, &ours).await?;
    setup_schema(&pool(&shared().url(), 1), &ours.options()).await?;
    assert_eq!(shape(&client, &ours).await?, made);
    client.batch_execute(&schema_sql(&ours.options())?).await?;
    assert_eq!(shape(&client, &ours).await?, made);

    client.batch_execute(&their_ddl(&theirs)).await?;
    let made = without_holder(&made, &ours.locks)
        .replace(&ours.locks, &theirs.locks)
        .replace(&ours.fences, &theirs.fences);
    assert_eq!(made, without_index(&shape(&client, &theirs).await?));
    Ok(())
}

#[tokio::test]
async fn tables_of_the_other_library_are_taken_as_they_are() -> Result<()> {
    let client = connect(&shared().url()).await;
    let tables = Tables::fresh();
    client.batch_execute(&their_ddl(&tables)).await?;
    let theirs = shape(&client, &tables).await?;
    // Their statements read all columns, and a session refuses a prepared one whose columns have changed.
    let prepared = client.prepare(&format!("SELECT * FROM {}", tables.locks)).await?;
    client.query(&prepared, &[]).await?;
    for _ in 0..2 {
        setup_schema(&pool(&shared().url(), 1), &tables.options()).await?;
    }
    client.batch_execute(&schema_sql(&tables.options())?).await?;
    assert_eq!(shape(&client, &tables).await?, theirs);
    client.query(&prepared, &[]).await?;
    works(&shared().url(), &tables.options(), "key").await?;
    for _ in 0..2 {
        upgrade(&tables).await?;
    }
    let before = shape(&client, &tables).await?;
    ensure!(
        before != theirs && without_holder(&before, &tables.locks) == without_index(&theirs),
        "{before}"
    );
    let error = client.query(&prepared, &[]).await.unwrap_err();
    ensure!(error.code().is_some_and(|code| code.code() == "0A000"), "{error}");
    works(&shared().url(), &tables.options(), "key").await?;

    // A table that was made by hand may lack the debug column or an index.
    let change = format!(
        "ALTER TABLE {} DROP COLUMN key_debug; DROP INDEX idx_{}_lock_id",
        tables.fences, tables.locks
    );
    client.batch_execute(&change).await?;
    setup_schema(&pool(&shared().url(), 1), &tables.options()).await?;
    assert_eq!(shape(&client, &tables).await?, before);
    Ok(())
}

/// Each lock leaves dead rows behind. With these settings the tables stay small; without them, they grew without end.
#[tokio::test]
async fn tables_are_set_up_for_many_dead_rows() -> Result<()> {
    let client = connect(&shared().url()).await;
    let of_schema_setup = Tables::made().await;
    // The settings come as well if the tables are those of the other library.
    let theirs = Tables::fresh();
    client.batch_execute(&their_ddl(&theirs)).await?;
    drop(theirs.backend(1).await);
    for Tables { locks, fences } in [of_schema_setup, theirs] {
        let sql =
            "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = $1::text::regclass";
        let settings: String = client.query_one(sql, &[&locks]).await?.get(0);
        ensure!(settings.contains("autovacuum_vacuum_scale_factor=0 "), "{settings}");
        ensure!(settings.contains("autovacuum_vacuum_threshold=1000 "), "{settings}");
        ensure!(settings.contains("autovacuum_vacuum_cost_delay=0 "), "{settings}");
        ensure!(settings.contains("vacuum_truncate=off"), "{settings}");
        let settings: String = client.query_one(sql, &[&fences]).await?.get(0);
        ensure!(settings.contains("fillfactor=80"), "{settings}");
        ensure!(settings.contains("autovacuum_vacuum_threshold=1000"), "{settings}");
    }
    Ok(())
}

#[tokio::test]
async fn a_role_that_may_only_use_the_tables_checks_them() -> Result<()> {
    let client = connect(&shared().url()).await;
    let role = "CREATE SCHEMA ops; CREATE ROLE worker LOGIN; GRANT USAGE ON SCHEMA ops TO worker";
    client.batch_execute(role).await?;
    let options = PostgresOptions::new().with_tables("ops.locks", "ops.fences");
    let worker = shared().url().replace("postgres:syncguard@", "worker@");
    let setup = async || setup_schema(&pool(&worker, 1), &options).await;

    // Each message has the statements that help.
    let refused = async |says: &str| {
        let error = setup().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::AuthFailed, "{error}");
        assert!(error.message().contains(says), "{error}");
    };
    refused("let its owner postgres run GRANT CREATE ON SCHEMA ops TO worker").await;
    client.batch_execute(&schema_sql(&options).expect("options in range")).await?;
    let grants = "GRANT SELECT, INSERT, UPDATE, DELETE ON \"ops\".\"locks\" TO worker; GRANT SELECT, INSERT, \
        UPDATE ON \"ops\".\"fences\" TO worker";
    refused(grants).await;
    client.batch_execute(grants).await?;
    setup().await?;
    works(&worker, &options, "key").await?;
    client.batch_execute("DROP INDEX ops.idx_locks_lock_id").await?;
    refused("the table ops.locks lacks a column or an index, and only its owner can add it: run set-up as postgres")
        .await;
    Ok(())
}

/// Tables of the TypeScript library, for a role that may not change them: holders are not stored, and no holder counts
/// as polling.
#[tokio::test]
async fn tables_without_the_column_for_holders_work() -> Result<()> {
    let client = connect(&shared().url()).await;
    let tables = Tables::fresh();
    client.batch_execute(&their_ddl(&tables)).await?;
    let url = shared().url();
    let of_url = PostgresBackend::connect_with(&url, tables.options()).await?;
    let of_pool = over(&url, 1, tables.options());
    for backend in [&of_url, &of_pool] {
        let lock = take(backend, "key").await;
        ensure!(holder_of(backend, "key").await?.is_none());
        for rival in [&of_url, &of_pool] {
            ensure!(!refusal(rival, "key").await?.is_polled);
        }
        release(backend, lock.lock_id).await?;
    }
    // A process that found the column missing goes on without it.
    upgrade(&tables).await?;
    let lock = take(&of_pool, "key").await;
    let newer = PostgresBackend::connect_with(&url, tables.options()).await?;
    ensure!(refusal(&newer, "key").await?.is_polled);
    release(&newer, lock.lock_id).await?;
    let _ = take(&newer, "key").await;
    ensure!(holder_of(&of_pool, "key").await? == Some(Holder::this_process()));
    ensure!(!refusal(&newer, "key").await?.is_polled);
    // The column is removed while that process runs.
    client.batch_execute(&format!("ALTER TABLE {} DROP COLUMN holder", tables.locks)).await?;
    ensure!(!refusal(&newer, "key").await?.is_polled);
    ensure!(holder_of(&newer, "key").await?.is_none());
    ensure!(take(&newer, "other").await.fence.get() == 1);
    Ok(())
}

mod long {
    use super::*;

    /// Another process adds the column: this one stores labels again within a minute.
    #[tokio::test]
    async fn a_column_for_holders_that_comes_later_is_noticed() -> Result<()> {
        let tables = Tables::fresh();
        connect(&shared().url()).await.batch_execute(&their_ddl(&tables)).await?;
        let backend = over(&shared().url(), 2, tables.options());
        let _ = take(&backend, "before").await;
        upgrade(&tables).await?;
        for number in 0..60 {
            let key = format!("after-{number}");
            let _ = take(&backend, &key).await;
            if holder_of(&backend, &key).await?.is_some() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        bail!("no label after a minute")
    }
}

async fn holder_of(backend: &PostgresBackend, key: &str) -> Result<Option<Holder>> {
    let found = backend.lookup(LookupRequest::by_key(key)?).await?;
    Ok(found.context("a live lock")?.holder)
}

/// The answer about a held key. A poll, which looks, gets the same.
async fn refusal(backend: &PostgresBackend, key: &str) -> Result<Contention> {
    let request = || AcquireRequest::new(key, Duration::from_secs(60));
    let answer = backend.acquire(request()?).await?;
    let AcquireResult::Busy(contention) = answer else { bail!("held") };
    let poll = backend.acquire(request()?.with_was_busy(true)).await?;
    let AcquireResult::Busy(polled) = poll else { bail!("held") };
    ensure!(polled.is_polled == contention.is_polled);
    Ok(contention)
}

#[tokio::test]
async fn other_peoples_tables_are_refused() -> Result<()> {
    let client = connect(&shared().url()).await;
    let tables = Tables::fresh();
    let Tables { locks, fences } = &tables;
    for other in [
        format!("CREATE TABLE {locks} (key text PRIMARY KEY, door text)"),
        format!("DROP TABLE {locks}; CREATE TABLE {fences} (fence_key text, fence bigint)"),
    ] {
        client.batch_execute(&other).await?;
        let error = setup_schema(&pool(&shared().url(), 1), &tables.options()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    }
    Ok(())
}

/// The TypeScript library quotes the names in its operations: capitals count, and both libraries mean one table.
#[tokio::test]
async fn capitals_count_as_in_the_operations_of_the_other_library() -> Result<()> {
    let mut client = connect(&shared().url()).await;
    let theirs = Tables { locks: "\"App_Locks\"".to_owned(), fences: "\"Select\"".to_owned() };
    let theirs_alone = "CREATE TABLE \"App_Locks\" (LIKE syncguard_locks INCLUDING ALL)";
    client.batch_execute(theirs_alone).await?;
    let options = PostgresOptions::new().with_tables("App_Locks", "Select");
    setup_schema(&pool(&shared().url(), 1), &options).await?;
    let backend = over(&shared().url(), 1, options);
    let (_, fence) =
        typescript::acquire(&mut client, &theirs, "key", 60_000).await?.context("a free key")?;
    ensure!(fence == "000000000000001" && is_refused(&backend, "key").await, "two holders");
    let _ = take(&backend, "other").await;
    ensure!(typescript::acquire(&mut client, &theirs, "other", 60_000).await?.is_none());

    // Earlier builds used the name in lower case: beside them, a key would have two holders.
    let is_refused = async |url: &str, options: &PostgresOptions, says: &str| {
        for refusal in [
            setup_schema(&pool(url, 1), options).await,
            PostgresBackend::connect_with(url, options.clone()).await.map(drop),
            over(url, 1, options.clone()).acquire(request("key", MINUTE)).await.map(drop),
        ] {
            let error = refusal.unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
            for text in [says, "two holders", "public.app_"] {
                assert!(error.message().contains(text), "{error}");
            }
        }
    };
    let options = PostgresOptions::new().with_tables("App_Locks", "App_Fences");
    for (made, says) in [
        ("TABLE app_locks (LIKE syncguard_locks INCLUDING ALL)", "beside the table \"App_Locks\""),
        ("TABLE app_fences (LIKE syncguard_fence_counters)", "\"App_Fences\" is missing"),
    ] {
        client.batch_execute(&format!("CREATE {made}")).await?;
        is_refused(&shared().url(), &options, says).await;
        let name = made.split(' ').nth(1).expect("a name");
        client.batch_execute(&format!("DROP TABLE {name}")).await?;
    }
    // Another program's table of this name is no table of locks.
    client.batch_execute("CREATE TABLE app_locks (door text)").await?;
    setup_schema(&pool(&shared().url(), 1), &options).await?;
    // A stranger's table beside ours stops nobody.
    let stranger = "CREATE ROLE folder; CREATE TABLE app_fences (LIKE syncguard_fence_counters); \
                    ALTER TABLE app_fences OWNER TO folder";
    client.batch_execute(stranger).await?;
    works(&shared().url(), &options, "beside").await?;

    let long = ["l".repeat(63), "f".repeat(63)];
    let options = PostgresOptions::new().with_tables(&long[0], &long[1]);
    for _ in 0..2 {
        setup_schema(&pool(&shared().url(), 1), &options).await?;
    }
    works(&shared().url(), &options, "key").await
}
