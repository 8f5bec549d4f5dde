//! The SQL of SyncGuard 2.5 for TypeScript, statement by statement, from its specification: the time is that of the
//! transaction's start, and the row is read without a lock and overwritten in its current state.

use anyhow::Result;
use syncguard_postgres::LockId;
use syncguard_postgres::tokio_postgres::{Client, Transaction};

use crate::postgres::support::Tables;

/// The time of a transaction.
pub(crate) const NOW: &str = "SELECT floor(extract(epoch FROM now()) * 1000)::bigint";
const TOLERANCE: i64 = 1000;

/// One acquire: the lock id and the fence, or `None` if the key is locked.
pub(crate) async fn acquire(
    client: &mut Client,
    tables: &Tables,
    key: &str,
    ttl: i64,
) -> Result<Option<(LockId, String)>> {
    let transaction = client.transaction().await?;
    let answer = match read(&transaction, tables, key).await? {
        Some(now) => Some(write(&transaction, tables, key, now, ttl).await?),
        None => None,
    };
    transaction.commit().await?;
    Ok(answer)
}

/// The first half: the time if the key is free.
pub(crate) async fn read(
    transaction: &Transaction<'_>,
    tables: &Tables,
    key: &str,
) -> Result<Option<i64>> {
    transaction.execute("SELECT pg_advisory_xact_lock(hashtext($1))", &[&key]).await?;
    let now: i64 = transaction.query_one(NOW, &[]).await?.get(0);
    let sql = format!("SELECT expires_at_ms FROM {} WHERE key = $1", tables.locks);
    let stored = transaction.query_opt(&sql, &[&key]).await?;
    let live = stored.is_some_and(|row| row.get::<_, i64>(0) > now - TOLERANCE);
    Ok((!live).then_some(now))
}

/// The second half.
pub(crate) async fn write(
    transaction: &Transaction<'_>,
    tables: &Tables,
    key: &str,
    now: i64,
    ttl: i64,
) -> Result<(LockId, String)> {
    let lock_id = LockId::generate()?;
    let counter = format!("fence:{key}");
    let sql = format!(
        "INSERT INTO {} (fence_key, fence, key_debug) VALUES ($1, 0, $2) ON CONFLICT (fence_key) DO NOTHING",
        tables.fences
    );
    transaction.execute(&sql, &[&counter, &key]).await?;
    let sql = format!(
        "UPDATE {} SET fence = fence + 1 WHERE fence_key = $1 RETURNING fence",
        tables.fences
    );
    let fence: i64 = transaction.query_one(&sql, &[&counter]).await?.get(0);
    let fence = format!("{fence:015}");
    let sql = format!(
        "INSERT INTO {} (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
         VALUES ($1, $2, $3, $4, $5, $1)
         ON CONFLICT (key) DO UPDATE SET lock_id = EXCLUDED.lock_id, expires_at_ms = EXCLUDED.expires_at_ms,
           acquired_at_ms = EXCLUDED.acquired_at_ms, fence = EXCLUDED.fence, user_key = EXCLUDED.user_key",
        tables.locks
    );
    transaction.execute(&sql, &[&key, &lock_id.expose(), &(now + ttl), &now, &fence]).await?;
    Ok((lock_id, fence))
}

/// One release.
pub(crate) async fn release(client: &mut Client, tables: &Tables, lock_id: LockId) -> Result<bool> {
    let transaction = client.transaction().await?;
    let now: i64 = transaction.query_one(NOW, &[]).await?.get(0);
    let sql = format!("SELECT * FROM {} WHERE lock_id = $1 FOR UPDATE", tables.locks);
    let row = transaction.query_opt(&sql, &[&lock_id.expose()]).await?;
    let held = row.filter(|row| row.get::<_, i64>("expires_at_ms") > now - TOLERANCE);
    if let Some(row) = &held {
        let sql = format!("DELETE FROM {} WHERE key = $1", tables.locks);
        transaction.execute(&sql, &[&row.get::<_, &str>("key")]).await?;
    }
    transaction.commit().await?;
    Ok(held.is_some())
}
