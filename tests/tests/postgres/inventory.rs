//! The inventory of a database.

use anyhow::Result;
use syncguard_postgres::inventory::ListRequest;
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{ErrorCode, Fence, PostgresBackend};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_tests::inventory::{inventory, shows_each_once};

use crate::postgres::support::{Tables, connect, pool, shared, take};

/// Rows as after many acquires.
async fn fill(client: &Client, tables: &Tables, prefix: &str, count: usize) -> Result<()> {
    let (locks, fences) = (&tables.locks, &tables.fences);
    let sql = format!(
        "INSERT INTO {locks} SELECT k, lpad(n::text, 22, 'A'), ms + 3600000, ms, lpad('1', 15, '0'), k
         FROM (SELECT n, '{prefix}' || lpad(n::text, 6, '0') AS k,
                 floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms
               FROM generate_series(0, {count} - 1) AS n) AS numbers;
         INSERT INTO {fences} SELECT 'fence:' || key, 1, key FROM {locks} ON CONFLICT DO NOTHING;
         ANALYZE {locks}; ANALYZE {fences}"
    );
    client.batch_execute(&sql).await?;
    Ok(())
}

/// A listing while others come and go, in a database whose text order is not the byte order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_another_collation_loses_no_lock() -> Result<()> {
    const COUNT: usize = 5000;
    let server = PostgresServer::builder().config("fsync = off").start()?;
    server.psql(
        "CREATE DATABASE linguistic TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' \
         LOCALE 'C.UTF-8'",
    )?;
    let url = server.url().replace("/postgres?", "/linguistic?");
    let url = url.strip_suffix("/postgres").map_or(url.clone(), |url| format!("{url}/linguistic"));
    let client = connect(&url).await;
    let order: bool = client.query_one("SELECT 'a' < 'B'", &[]).await?.get(0);
    assert!(order, "the database has the order of bytes");
    let tables = Tables::fresh();
    let (backend, others) = (tables.backend_at(&url, 2).await, tables.backend_at(&url, 2).await);
    fill(&client, &tables, "bulk:", COUNT).await?;
    // Keys around and between the others in byte order.
    for key in ["BULK:000001", "bulk", "bulk;", "b\u{fc}lk:1", "bulk-000002"] {
        let _ = take(&backend, key).await;
    }
    shows_each_once(&backend, &others, "bulk:", COUNT).await?;
    let counters =
        inventory(&backend).list_counters(ListRequest::new().with_prefix("b\u{fc}")).await?;
    assert_eq!(counters.entries.len(), 1);
    let listed = inventory(&backend);
    let (mut next, mut counted) = (Some(ListRequest::new().with_page_size(1000)), 0);
    while let Some(request) = next {
        let page = listed.list_counters(request).await?;
        next = page.next;
        counted += page.entries.iter().filter(|one| !one.key.expose().ends_with('+')).count();
    }
    assert_eq!(counted, COUNT + 5);
    Ok(())
}

/// The plan of a statement of the library, with values for its parameters.
async fn plan(client: &Client, sql: &str, values: &str) -> Result<String> {
    client.batch_execute("SET plan_cache_mode = force_generic_plan").await?;
    let types = "text, text, text, text, bigint";
    client.batch_execute(&format!("PREPARE page ({types}) AS {sql}")).await?;
    let explain = format!("EXPLAIN (ANALYZE, COSTS OFF) EXECUTE page({values})");
    let rows = client.query(&explain, &[]).await?;
    let lines = rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>();
    client.batch_execute("DEALLOCATE page").await?;
    Ok(lines.join("\n"))
}

/// Also with the generic plan, which a prepared statement gets.
#[tokio::test]
async fn a_page_goes_along_the_primary_key() -> Result<()> {
    let tables = Tables::fresh();
    tables.backend(1).await;
    let client = connect(&shared().url()).await;
    fill(&client, &tables, "bulk:", 20_000).await?;
    for (sql, table, values) in [
        (
            include_str!("../../../crates/syncguard-postgres/src/sql/list_locks.sql"),
            &tables.locks,
            "'bulk:010000', 'bulk:010000', 'bulk;', 'bulk:', 100",
        ),
        (
            include_str!("../../../crates/syncguard-postgres/src/sql/list_counters.sql"),
            &tables.fences,
            "'fence:bulk:010000', 'fence:bulk:010000', 'fence:bulk;', 'fence:bulk:', 100",
        ),
    ] {
        let lines: Vec<&str> = sql.lines().filter(|line| !line.starts_with("--")).collect();
        let sql =
            ["<", "<>", "<=", ">", ">=", "="].iter().fold(lines.join(" "), |sql, operator| {
                sql.replace(&format!("{{{operator}}}"), &format!("OPERATOR(pg_catalog.{operator})"))
            });
        let sql = sql
            .replace("{locks}", &tables.locks)
            .replace("{fences}", &tables.fences)
            .replace("{locks_are_seen}", "NULL")
            .replace("{fences_are_seen}", "NULL")
            .replace("{record}", "l.key, l.lock_id")
            .replace("{now}", "0")
            .replace("{holder}", "NULL");
        let plan = plan(&client, &sql, values).await?;
        let scan = format!("using {table}_pkey");
        assert!(plan.contains(&scan), "{plan}");
        assert!(!plan.contains("Seq Scan") && !plan.contains("Sort"), "{plan}");
        // Only one of the two scans is used, and only the row at the cursor is discarded.
        assert!(plan.contains("never executed"), "{plan}");
        assert!(plan.contains("rows=100 "), "{plan}");
        let thrown = plan.lines().filter(|line| line.contains("Rows Removed by Filter"));
        assert!(thrown.clone().all(|line| line.trim().ends_with(": 1")), "{plan}");
    }
    Ok(())
}

/// The grants for locks are enough for all of it, and read access is enough for listing.
#[tokio::test]
async fn the_documented_grants_are_enough() -> Result<()> {
    let server = PostgresServer::builder().config("fsync = off").start()?;
    let tables = Tables::fresh();
    let backend = tables.backend_at(&server.url(), 1).await;
    let _ = take(&backend, "k").await;
    let Tables { locks, fences } = &tables;
    server.psql(&format!(
        "CREATE ROLE worker LOGIN; CREATE ROLE looker LOGIN;
         GRANT SELECT, INSERT, UPDATE, DELETE ON {locks} TO worker;
         GRANT SELECT, INSERT, UPDATE ON {fences} TO worker;
         GRANT SELECT ON {locks}, {fences} TO looker"
    ))?;
    for (role, stands_at) in [("worker", 1), ("looker", 9)] {
        let url = server.url().replacen("postgres:", &format!("{role}:"), 2).replacen(
            &format!("{role}://"),
            "postgres://",
            1,
        );
        let backend = PostgresBackend::from_pool(pool(&url, 1), tables.options())?;
        assert_eq!(inventory(&backend).list_locks(ListRequest::new()).await?.entries.len(), 1);
        assert_eq!(inventory(&backend).list_counters(ListRequest::new()).await?.entries.len(), 1);
        assert_eq!(inventory(&backend).fence_counter("k").await?, Some(Fence::new(stands_at)?));
        let raised = inventory(&backend).raise_counter("k", Fence::new(9)?).await;
        if role == "worker" {
            assert_eq!(raised?, Fence::new(9)?);
        } else {
            assert_eq!(raised.unwrap_err().code(), ErrorCode::AuthFailed);
        }
    }
    Ok(())
}

/// An invalid counter is reported, and stays.
#[tokio::test]
async fn a_counter_that_makes_no_sense_is_left_alone() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(1).await;
    let client = connect(&shared().url()).await;
    let sql =
        format!("INSERT INTO {} VALUES ('fence:bad', -5, 'bad'), ('odd', 7, 'odd')", tables.fences);
    client.batch_execute(&sql).await?;
    let page = inventory(&backend).list_counters(ListRequest::new()).await?;
    assert_eq!((page.entries.len(), page.corrupt.len()), (0, 1));
    let answers = [
        inventory(&backend).fence_counter("bad").await.map(drop),
        inventory(&backend).raise_counter("bad", Fence::new(9)?).await.map(drop),
    ];
    for answer in answers {
        assert_eq!(answer.unwrap_err().code(), ErrorCode::Internal);
    }
    assert_eq!(tables.counter(&client, "bad").await, -5);
    Ok(())
}
