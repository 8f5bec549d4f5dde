//! Processes with labels, processes without, and processes of the version before labels on the same keys, also while the file
//! gets the column for labels.

#![allow(clippy::print_stdout, reason = "counts for a human eye")]

use std::fs;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use rustix::time::{ClockId, clock_gettime};
use syncguard_sqlite::{LockId, SqliteOptions};
use syncguard_test_effort::either;
use syncguard_tests::labels::{Other, Site, Size, Tables, run};

use crate::support::File;

struct Sqlite {
    file: File,
}

impl Site for Sqlite {
    type Other = Before;

    async fn connect(&self, label: &str) -> Result<syncguard::DynBackend> {
        let options = SqliteOptions::new().with_operation_timeout(Duration::from_secs(20));
        let backend = self.file.open_with(options.with_holder(label)).await;
        Ok(syncguard::DynBackend::new(backend))
    }

    async fn other(&self) -> Result<Before> {
        Ok(Before { connection: self.file.raw() })
    }

    async fn expire(&self, key: &str) -> Result<bool> {
        let sql =
            "UPDATE locks SET acquired_ms = acquired_ms - 120000, expires_ms = expires_ms - 120000
            WHERE key = ?1";
        Ok(self.file.raw().execute(sql, [key])? == 1)
    }

    /// The first process of this version adds the column.
    async fn migrate(&self) -> Result<()> {
        drop(self.file.open().await);
        Ok(())
    }
}

/// The statements of the version before labels.
struct Before {
    connection: Connection,
}

/// The time since the boot in milliseconds.
fn now() -> i64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

impl Other for Before {
    async fn acquire(&mut self, key: &str, lock_id: LockId) -> Result<Option<u64>> {
        let turn = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql = "SELECT expires_ms FROM locks WHERE key = ?1";
        let expires: Option<i64> = turn.query_row(sql, [key], |row| row.get(0)).optional()?;
        let now = now();
        if expires.is_some_and(|expires| expires > now - 1000) {
            return Ok(None);
        }
        let sql =
            "INSERT INTO fences VALUES (?1, 1) ON CONFLICT (key) DO UPDATE SET fence = fence + 1
            RETURNING fence";
        let fence: i64 = turn.query_row(sql, [key], |row| row.get(0))?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let wall = i64::try_from(SystemTime::UNIX_EPOCH.elapsed()?.as_millis())?;
        let sql = "INSERT INTO locks (key, lock_id, fence, boot, acquired_ms, expires_ms, offset_ms)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
            ON CONFLICT (key) DO UPDATE SET lock_id = excluded.lock_id, fence = excluded.fence, boot = excluded.boot,
              acquired_ms = excluded.acquired_ms, expires_ms = excluded.expires_ms, offset_ms = excluded.offset_ms";
        let values = (key, lock_id.expose(), fence, boot.trim(), now, now + 60_000, wall - now);
        turn.execute(sql, values)?;
        turn.commit()?;
        Ok(Some(u64::try_from(fence)?))
    }

    async fn release(&mut self, lock_id: LockId) -> Result<bool> {
        let sql = "DELETE FROM locks WHERE lock_id = ?1";
        Ok(self.connection.execute(sql, [lock_id.expose()])? == 1)
    }
}

fn size() -> Size {
    Size { labelled: 2, unlabelled: 1, others: 2, rounds: either(40, 1_000) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lookup_shows_the_label_of_another_lock() -> Result<()> {
    let site = Sqlite { file: File::new() };
    site.migrate().await?;
    println!("{}", run(site, Tables::New, size()).await?);
    Ok(())
}

/// A rolling upgrade: only processes of the older version use the file at first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_column_is_added_during_the_run() -> Result<()> {
    const SCHEMA: &str = include_str!("../../../crates/syncguard-sqlite/src/sql/schema.sql");
    let file = File::new();
    let old = file.raw();
    old.pragma_update(None, "journal_mode", "wal")?;
    old.execute_batch(SCHEMA).context("the schema")?;
    old.pragma_update(None, "application_id", 0x5379_4764)?;
    old.pragma_update(None, "user_version", 1)?;
    println!("{}", run(Sqlite { file }, Tables::OldWithoutUs, size()).await?);
    Ok(())
}
