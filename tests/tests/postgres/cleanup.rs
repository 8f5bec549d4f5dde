//! The rows that `is_locked` removes, and the rows that it keeps.

use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_postgres::LockBackend as _;
use syncguard_postgres::contract::IsLockedRequest;
use syncguard_postgres::tokio_postgres::Client;

use crate::postgres::support::{MINUTE, Tables, connect, over, pin, settles, shared, take, until};

async fn rows(admin: &Client, tables: &Tables) -> i64 {
    let sql = format!("SELECT count(*) FROM {}", tables.locks);
    admin.query_one(&sql, &[]).await.expect("a count").get(0)
}

#[tokio::test]
async fn only_locks_that_are_long_over_are_cleared_away() -> Result<()> {
    let tables = Tables::made().await;
    // The clean-up does not wait; otherwise this call would take half a minute.
    let options = tables.options().with_cleanup_in_is_locked(true).with_statement_timeout(MINUTE);
    let backend = over(&shared().url(), 2, options);
    let idle = over(&shared().url(), 1, tables.options());
    let mut admin = connect(&shared().url()).await;
    let observer = connect(&shared().url()).await;
    let _ = take(&backend, "key").await;

    // Live; expired, but too recently for removal for another 1.8 seconds.
    for (age, live) in [(0, true), (50_000, true), (11_200, false)] {
        tables.age(&admin, "key", age).await;
        assert_eq!(backend.is_locked(IsLockedRequest::new("key")?).await?, live);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(rows(&admin, &tables).await, 1, "after {age} ms");
    }
    // Long over.
    tables.age(&admin, "key", 60_000).await;
    assert!(!idle.is_locked(IsLockedRequest::new("key")?).await?);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(rows(&admin, &tables).await, 1, "nobody asked for it");

    // A transaction holds the row: it is kept, and the call does not wait.
    let pin = pin(&mut admin, &tables).await?;
    assert!(!backend.is_locked(IsLockedRequest::new("key")?).await?);
    // The clean-up could wait for half of the statement timeout, which is a minute.
    let sql = "SELECT FROM pg_stat_activity
        WHERE state = 'idle' AND query LIKE '%SKIP LOCKED%' AND query LIKE '%' || $1::text || '%'";
    let tried = until("a clean-up", async || {
        Ok(observer.query_opt(sql, &[&tables.locks]).await?.is_some())
    });
    tokio::time::timeout(MINUTE / 3, tried).await.context("it waits")??;
    pin.rollback().await?;
    assert_eq!(rows(&admin, &tables).await, 1);

    assert!(!backend.is_locked(IsLockedRequest::new("key")?).await?);
    settles(&admin, &tables).await?;
    assert_eq!(tables.counter(&admin, "key").await, 1, "the counter stays");
    assert_eq!(take(&backend, "key").await.fence.get(), 2);
    Ok(())
}
