//! The rows that `is_locked` removes, and the rows that it keeps.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_postgres::contract::IsLockedRequest;
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{LockBackend as _, PostgresBackend};

use crate::postgres::support::{MINUTE, Tables, connect, pool, shared, take};

async fn rows(admin: &Client, tables: &Tables) -> i64 {
    let sql = format!("SELECT count(*) FROM {}", tables.locks);
    admin.query_one(&sql, &[]).await.expect("a count").get(0)
}

#[tokio::test]
async fn only_locks_that_are_long_over_are_cleared_away() -> Result<()> {
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    // The clean-up does not wait; otherwise this call would take half a minute.
    let options = tables.options().with_cleanup_in_is_locked(true).with_statement_timeout(MINUTE);
    let backend =
        PostgresBackend::from_pool(pool(&shared().url(), 2), options).expect("options in range");
    let idle = PostgresBackend::from_pool(pool(&shared().url(), 1), tables.options())
        .expect("options in range");
    let mut admin = connect(&shared().url()).await;
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
    let pin = admin.transaction().await?;
    pin.execute(&format!("SELECT FROM {} FOR KEY SHARE", tables.locks), &[]).await?;
    assert!(!backend.is_locked(IsLockedRequest::new("key")?).await?);
    for round in 0.. {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let status = backend.pool().status();
        if status.available == status.size {
            break;
        }
        ensure!(round < 200, "it waits");
    }
    pin.rollback().await?;
    assert_eq!(rows(&admin, &tables).await, 1);

    assert!(!backend.is_locked(IsLockedRequest::new("key")?).await?);
    for _ in 0..1000 {
        if rows(&admin, &tables).await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(rows(&admin, &tables).await, 0);
    assert_eq!(tables.counter(&admin, "key").await, 1, "the counter stays");
    assert_eq!(take(&backend, "key").await.fence.get(), 2);
    Ok(())
}
