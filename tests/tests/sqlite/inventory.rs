//! The inventory of a file.

use anyhow::Result;
use syncguard_sqlite::{SqliteOptions, Synchronous};
use syncguard_tests::inventory::{shows_each_once, take_all};

use crate::support::File;

/// Through one handle, and through another one like another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_locks_are_listed_while_others_come_and_go() -> Result<()> {
    let file = File::new();
    let options = SqliteOptions::new().with_synchronous(Synchronous::Normal);
    let (backend, others) = (file.open_with(options.clone()).await, file.open_with(options).await);
    take_all(&backend, "bulk:", 100_000).await?;
    shows_each_once(&backend, &others, "bulk:", 100_000).await
}

/// A page is found by the primary key, without a scan of the table.
#[tokio::test]
async fn a_page_goes_along_the_primary_key() -> Result<()> {
    let file = File::new();
    let _backend = file.open().await;
    for (sql, table) in [
        (include_str!("../../../crates/syncguard-sqlite/src/sql/list_locks.sql"), "locks"),
        (include_str!("../../../crates/syncguard-sqlite/src/sql/list_counters.sql"), "fences"),
    ] {
        let raw = file.raw();
        let mut explain = raw.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
        let plan: Vec<String> =
            explain.query_map(("a", "", "b", 5), |row| row.get(3))?.collect::<Result<_, _>>()?;
        let expected = format!("SEARCH {table} USING PRIMARY KEY (key>? AND key<?)");
        assert_eq!(plan, [expected]);
    }
    Ok(())
}
