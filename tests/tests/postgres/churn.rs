//! What is left of many locks.

#![allow(
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "rates and ratios for a human eye"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{LockBackend as _, ReleaseRequest, schema_sql};
use syncguard_test_services::postgres::PostgresServer;
use tokio::task::JoinSet;

use crate::support::{MINUTE, Tables, connect, request};

const KEYS: usize = 1000;
const TASKS: usize = 20;

/// The tables stay small while locks come and go. `SYNCGUARD_CHURN` sets the number of cycles, for the
/// million of the issue; `SYNCGUARD_NAPTIME` how often autovacuum looks, by default each second.
///
/// Where other processes keep autovacuum from the processor, it gets another chance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_stay_small_under_churn() -> Result<()> {
    let cycles: usize = std::env::var("SYNCGUARD_CHURN").map_or(Ok(40_000), |text| text.parse())?;
    let nap = std::env::var("SYNCGUARD_NAPTIME").unwrap_or_else(|_| "1s".to_owned());
    let server = PostgresServer::builder()
        .config("fsync = off")
        .config(&format!("autovacuum_naptime = {nap}"))
        .start()?;
    for _ in 0..3 {
        if stay_small(&server, cycles, &nap).await? {
            return Ok(());
        }
    }
    bail!("tables and indexes have grown to more than 3 times the size of what lives in them");
}

async fn stay_small(server: &PostgresServer, cycles: usize, nap: &str) -> Result<bool> {
    let tables = Tables::fresh();
    let backend = tables.backend_at(&server.url(), 8).await;
    let admin = connect(&server.url()).await;

    let started = Instant::now();
    let done = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (backend, done) = (backend.clone(), Arc::clone(&done));
        tasks.spawn(async move {
            let mut turn = 0;
            loop {
                if done.fetch_add(1, Ordering::Relaxed) >= cycles {
                    return anyhow::Ok(());
                }
                // Everybody has keys of their own.
                turn = (turn + 1) % (KEYS / TASKS);
                let key = format!("key {}", task * (KEYS / TASKS) + turn);
                let lock = backend.acquire(request(&key, MINUTE)).await?;
                let lock = lock.acquired().context("a key of its own")?;
                ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
            }
        });
    }
    let mut peak = 0;
    while done.load(Ordering::Relaxed) < cycles {
        tokio::time::sleep(Duration::from_millis(500)).await;
        peak = peak.max(size(&admin, &tables).await?);
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let rate = cycles as f64 / started.elapsed().as_secs_f64();
    peak = peak.max(size(&admin, &tables).await?);

    // What as many locks as there are keys take if nothing else ever was there.
    let live = Tables::fresh();
    admin.batch_execute(&schema_sql(&live.options())).await?;
    let copy = format!(
        "INSERT INTO {} SELECT 'key ' || n, lpad(n::text, 22, 'A'), n, n, lpad(n::text, 15, '0'), 'key ' || n
           FROM generate_series(1, {KEYS}) AS n;
         INSERT INTO {} SELECT * FROM {}",
        live.locks, live.fences, tables.fences
    );
    admin.batch_execute(&copy).await?;
    let live = size(&admin, &live).await?;
    println!(
        "{cycles} cycles at {rate:.0}/s, autovacuum every {nap}: {peak} bytes at most, {live} live: {:.2}",
        peak as f64 / live as f64
    );
    println!("{}", sizes(&admin, &tables).await?);
    Ok(peak <= 3 * live)
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
