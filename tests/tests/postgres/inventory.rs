//! The inventory of a database.

use anyhow::Result;
use syncguard_postgres::inventory::ListRequest;
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{ErrorCode, Fence};
use syncguard_tests::inventory::{counters, inventory, locks};

use crate::postgres::support::{Tables, connect, over, shared, stage, take};

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

/// A listing in a database whose text order is not the byte order.
#[tokio::test]
async fn the_order_of_another_collation_loses_no_lock() -> Result<()> {
    const COUNT: usize = 250;
    shared().psql(
        "CREATE DATABASE linguistic TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' \
         LOCALE 'C.UTF-8'",
    )?;
    let url = shared().url();
    let url = format!("{}/linguistic", url.strip_suffix("/postgres").expect("a database"));
    let client = connect(&url).await;
    let order: bool = client.query_one("SELECT 'a' < 'B'", &[]).await?.get(0);
    assert!(order, "the database has the order of bytes");
    let tables = Tables::fresh();
    let backend = tables.backend_at(&url, 2).await;
    fill(&client, &tables, "bulk:", COUNT).await?;
    let mut expected: Vec<_> = (0..COUNT).map(|number| format!("bulk:{number:06}")).collect();
    // Keys around and between the others in byte order.
    let around = ["BULK:000001", "bulk", "bulk;", "b\u{fc}lk:1", "bulk-000002"];
    for key in around {
        let _ = take(&backend, key).await;
    }
    let pages = || ListRequest::new().with_page_size(100);
    // The pages have the order of the database.
    let sorted = |(mut keys, corrupt): (Vec<String>, usize)| {
        keys.sort_unstable();
        (keys, corrupt)
    };
    assert_eq!(locks(&backend, pages().with_prefix("bulk:")).await?, (expected.clone(), 0));
    assert_eq!(counters(&backend, pages().with_prefix("b\u{fc}")).await?.0, ["b\u{fc}lk:1"]);
    expected.extend(around.map(str::to_owned));
    expected.sort_unstable();
    assert_eq!(sorted(locks(&backend, pages()).await?), (expected.clone(), 0));
    assert_eq!(sorted(counters(&backend, pages()).await?), (expected, 0));
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
        // PostgreSQL 18 writes decimals.
        assert!(["rows=100 ", "rows=100.00 "].iter().any(|rows| plan.contains(rows)), "{plan}");
        let thrown = plan.lines().filter(|line| line.contains("Rows Removed by Filter"));
        assert!(thrown.clone().all(|line| line.trim().ends_with(": 1")), "{plan}");
    }
    Ok(())
}

/// Read access is enough for a listing. The grants for locks are enough for all of it, as the tests of row-level
/// security show.
#[tokio::test]
async fn read_access_is_enough_for_a_listing() -> Result<()> {
    let (tables, backend, admin) = stage(1).await;
    let _ = take(&backend, "k").await;
    let Tables { locks, fences } = &tables;
    let role = format!("CREATE ROLE looker LOGIN; GRANT SELECT ON {locks}, {fences} TO looker");
    admin.batch_execute(&role).await?;
    let url = shared().url().replace("postgres:syncguard@", "looker@");
    let looker = inventory(&over(&url, 1, tables.options()));
    assert_eq!(looker.list_locks(ListRequest::new()).await?.entries.len(), 1);
    assert_eq!(looker.list_counters(ListRequest::new()).await?.entries.len(), 1);
    assert_eq!(looker.fence_counter("k").await?, Some(Fence::new(1)?));
    let refused = looker.raise_counter("k", Fence::new(9)?).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::AuthFailed);
    Ok(())
}
