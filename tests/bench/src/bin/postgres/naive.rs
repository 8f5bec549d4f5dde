//! The transaction of the specification, every statement awaited before the next is sent.

use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_postgres::LockId;
use syncguard_postgres::deadpool_postgres::Pool;

const NOW: &str = "SELECT floor(extract(epoch FROM now()) * 1000)::bigint";
const READ: &str = "SELECT * FROM syncguard_locks WHERE key = $1 FOR UPDATE";
const ZERO: &str =
    "INSERT INTO syncguard_fence_counters (fence_key, fence, key_debug) VALUES ($1, 0, $2)
    ON CONFLICT (fence_key) DO NOTHING";
const COUNT: &str =
    "UPDATE syncguard_fence_counters SET fence = fence + 1 WHERE fence_key = $1 RETURNING fence";
const TAKE: &str =
    "INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
    VALUES ($1, $2, $3, $4, $5, $1) ON CONFLICT (key) DO UPDATE SET lock_id = EXCLUDED.lock_id,
    expires_at_ms = EXCLUDED.expires_at_ms, acquired_at_ms = EXCLUDED.acquired_at_ms,
    fence = EXCLUDED.fence, user_key = EXCLUDED.user_key";
const FIND: &str = "SELECT * FROM syncguard_locks WHERE lock_id = $1 FOR UPDATE";
const FREE: &str = "DELETE FROM syncguard_locks WHERE key = $1";

pub(crate) async fn acquire(pool: &Pool, key: &str, ttl: Duration) -> Result<Option<LockId>> {
    let mut client = pool.get().await?;
    let it = client.transaction().await?;
    let turn = it.prepare_cached("SELECT pg_advisory_xact_lock(hashtext($1))").await?;
    it.execute(&turn, &[&key]).await?;
    let now: i64 = it.query_one(&it.prepare_cached(NOW).await?, &[]).await?.get(0);
    if let Some(row) = it.query_opt(&it.prepare_cached(READ).await?, &[&key]).await?
        && row.get::<_, i64>("expires_at_ms") > now - 1000
    {
        it.commit().await?;
        return Ok(None);
    }
    let counter = format!("fence:{key}");
    it.execute(&it.prepare_cached(ZERO).await?, &[&counter, &key]).await?;
    let fence = it.query_one(&it.prepare_cached(COUNT).await?, &[&counter]).await?;
    let fence = format!("{:015}", fence.get::<_, i64>(0));
    let lock_id = LockId::generate()?;
    let expires_at = now + i64::try_from(ttl.as_millis())?;
    let take = it.prepare_cached(TAKE).await?;
    it.execute(&take, &[&key, &lock_id.expose(), &expires_at, &now, &fence]).await?;
    it.commit().await?;
    Ok(Some(lock_id))
}

pub(crate) async fn release(pool: &Pool, lock_id: LockId) -> Result<()> {
    let mut client = pool.get().await?;
    let it = client.transaction().await?;
    let now: i64 = it.query_one(&it.prepare_cached(NOW).await?, &[]).await?.get(0);
    let row = it.query_opt(&it.prepare_cached(FIND).await?, &[&lock_id.expose()]).await?;
    let row = row.context("a lock of ours")?;
    anyhow::ensure!(row.get::<_, i64>("expires_at_ms") > now - 1000);
    it.execute(&it.prepare_cached(FREE).await?, &[&row.get::<_, &str>("key")]).await?;
    Ok(it.commit().await?)
}
