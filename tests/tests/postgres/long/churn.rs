//! The space that many locks leave behind.

#![allow(clippy::cast_precision_loss, clippy::print_stdout, reason = "a ratio for a human eye")]

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{IsLockedRequest, ReleaseRequest};
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{LockBackend as _, LockId, PostgresBackend};
use syncguard_test_effort::either;
use syncguard_test_services::postgres::PostgresServer;

use crate::postgres::support::{MINUTE, Tables, connect, take};

const KEYS: usize = 1000;

/// The number of locks before autovacuum has to have run. It may run at any moment of these, so no more than twice as
/// many rows are ever left behind, which a busy server leaves in a second.
const BETWEEN: usize = 1750;

/// The tables stay small while locks come and go.
///
/// One task takes all locks: if several sessions extend a table at once, PostgreSQL makes up to 20 empty pages for
/// each waiting session, which says nothing about the rows that are left behind. The task waits for autovacuum, so
/// the speed of the machine and its other work make no difference.
#[tokio::test]
async fn tables_stay_small_under_churn() -> Result<()> {
    let cycles: usize = either(6_000, 20_000);
    let server = PostgresServer::builder()
        .config("fsync = off")
        .config("autovacuum_naptime = 1s")
        .start()?;
    let tables = Tables::fresh();
    let backend = tables.backend_at(&server.url(), 1).await;
    let admin = connect(&server.url()).await;

    let mut held = Vec::new();
    for number in 0..KEYS {
        held.push(take(&backend, &key(number)).await.lock_id);
    }
    let live = size(&admin, &tables).await?;
    for lock_id in held {
        release(&backend, lock_id).await?;
    }

    let mut peak = live;
    let mut visits = visits(&admin, &tables).await?;
    for number in 0..cycles {
        release(&backend, take(&backend, &key(number % KEYS)).await.lock_id).await?;
        if number % BETWEEN == BETWEEN - 1 {
            peak = peak.max(size(&admin, &tables).await?);
            visits = next_visit(&admin, &tables, &backend, visits).await?;
        }
    }
    peak = peak.max(size(&admin, &tables).await?);

    let ratio = peak as f64 / live as f64;
    let sizes = sizes(&admin, &tables).await?;
    println!("{cycles} cycles: {peak} bytes at most, {live} live: {ratio:.2}\n{sizes}");
    ensure!(peak <= 3 * live, "{peak} bytes are more than 3 times the {live} that live: {sizes}");
    Ok(())
}

fn key(number: usize) -> String {
    format!("key {number}")
}

async fn release(backend: &PostgresBackend, lock_id: LockId) -> Result<()> {
    ensure!(backend.release(ReleaseRequest::new(lock_id)).await?.is_released());
    Ok(())
}

/// The number of times autovacuum has cleaned the locks.
async fn visits(admin: &Client, tables: &Tables) -> Result<i64> {
    let sql = "SELECT autovacuum_count FROM pg_stat_user_tables WHERE relid = $1::text::regclass";
    Ok(admin.query_one(sql, &[&tables.locks]).await?.get(0))
}

/// Waits until autovacuum has run again. It is due, because more than 1000 locks are gone.
async fn next_visit(
    admin: &Client,
    tables: &Tables,
    backend: &PostgresBackend,
    before: i64,
) -> Result<i64> {
    let next = async {
        loop {
            // A session reports its work once a second, and only when it does something.
            backend.is_locked(IsLockedRequest::new("nobody's")?).await?;
            let now = visits(admin, tables).await?;
            if now > before {
                return Ok(now);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(MINUTE, next).await.context("autovacuum has not come")?
}

/// Both tables and their indexes.
async fn size(admin: &Client, tables: &Tables) -> Result<i64> {
    let sql = "SELECT (pg_total_relation_size($1::text::regclass) + pg_total_relation_size($2::text::regclass))::bigint";
    Ok(admin.query_one(sql, &[&tables.locks, &tables.fences]).await?.get(0))
}

async fn sizes(admin: &Client, tables: &Tables) -> Result<String> {
    let sql = "SELECT string_agg(relname || ' ' || pg_relation_size(oid), ', ' ORDER BY relname) FROM pg_class
        WHERE oid IN ($1::text::regclass, $2::text::regclass)
           OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN ($1::text::regclass, $2::text::regclass))";
    Ok(admin.query_one(sql, &[&tables.locks, &tables.fences]).await?.get(0))
}
