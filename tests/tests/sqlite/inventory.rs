//! The inventory of a file.

use anyhow::{Context as _, Result};
use syncguard_sqlite::inventory::ListRequest;
use syncguard_sqlite::try_acquire;
use syncguard_tests::inventory::{counters, locks};

use crate::sqlite::support::File;

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
            explain.query_map(("a", "", "b"), |row| row.get(3))?.collect::<Result<_, _>>()?;
        let expected = format!("SEARCH {table} USING PRIMARY KEY (key>? AND key<?)");
        assert_eq!(plan, [expected]);
    }
    Ok(())
}

/// Another program can write text that is not UTF-8. It hides no other lock and no other counter.
#[tokio::test]
async fn a_key_that_is_not_text_hides_no_other() -> Result<()> {
    let file = File::new();
    let backend = file.open().await;
    let mut guards = Vec::new();
    for key in ["a", "b", "c"] {
        guards.push(try_acquire(&backend, key).await?.acquired().context("a free key")?);
    }
    // Lock ids are unique.
    for insert in [
        "INSERT INTO locks (key, lock_id, fence, boot, acquired_ms, expires_ms, offset_ms)
         SELECT CAST(x'62ff' AS TEXT), 'of b', fence, boot, acquired_ms, expires_ms, offset_ms
         FROM locks WHERE key = 'b'",
        "INSERT INTO fences (key, fence) VALUES (CAST(x'62ff' AS TEXT), 1)",
    ] {
        assert_eq!(file.raw().execute(insert, ())?, 1);
    }
    for size in 1..=4 {
        let pages = || ListRequest::new().with_page_size(size);
        for (keys, corrupt) in [locks(&backend, pages()).await?, counters(&backend, pages()).await?]
        {
            assert_eq!((keys.concat().as_str(), corrupt), ("abc", 1), "pages of {size}");
        }
    }
    Ok(())
}
