//! Rows in PostgreSQL, read by its statements and the client, on a server that this starts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value as Json;
use syncguard_postgres::contract::{AcquireRequest, IsLockedRequest, LookupRequest};
use syncguard_postgres::tokio_postgres::{Client, NoTls};
use syncguard_postgres::{Fence, Key, LockBackend as _, LockId, PostgresBackend};
use syncguard_test_services::postgres::PostgresServer;
use tokio::runtime::Runtime;

use crate::expected::{Answers, Expected, lock, now};

/// A row with any values: `["lock id", expiry, acquisition, "fence", "user's key"]`. A time may be `"later"`.
pub fn check_postgres_row(input: &[u8]) {
    let Some(row) = Row::parse(input) else { return };
    let stage = STAGE.get_or_init(|| Stage::start().expect("a PostgreSQL server"));
    if let Some(answers) = stage.runtime.block_on(stage.ask(&row)).expect("an answer") {
        answers.check(row.expected());
    }
}

static STAGE: OnceLock<Stage> = OnceLock::new();

struct Row {
    lock_id: String,
    expires: i64,
    acquired: i64,
    fence: String,
    user_key: String,
}

impl Row {
    fn parse(input: &[u8]) -> Option<Self> {
        let row: [Json; 5] = serde_json::from_slice(input).ok()?;
        let [lock_id, expires, acquired, fence, user_key] = row;
        // PostgreSQL itself does not accept NUL.
        let text = |value: Json| value.as_str().filter(|it| !it.contains('\0')).map(str::to_owned);
        let time = |value: Json| match value {
            Json::String(_) => i64::try_from(now() + 3_600_000).ok(),
            other => other.as_i64(),
        };
        Some(Self {
            lock_id: text(lock_id)?,
            expires: time(expires)?,
            acquired: time(acquired)?,
            fence: text(fence)?,
            user_key: text(user_key)?,
        })
    }

    fn expected(&self) -> Expected {
        let is_time = |millis: i64| (0..=9_007_199_254_740_991).contains(&millis);
        let is_fence = self.fence.len() == 15 && self.fence.bytes().all(|it| it.is_ascii_digit());
        let is_intact = is_time(self.expires)
            && is_time(self.acquired)
            && is_fence
            && LockId::new(&self.lock_id).is_ok()
            && (1..=512).contains(&self.user_key.len());
        if !is_intact {
            return Expected::Refused;
        }
        // The statements leave the rest of the checks to the client.
        match (Key::new(&self.user_key), self.fence.parse::<Fence>()) {
            (Ok(_), Ok(fence)) => lock(self.expires.unsigned_abs(), fence),
            _ => Expected::Unsure,
        }
    }
}

struct Stage {
    runtime: Runtime,
    raw: Client,
    backend: PostgresBackend,
    asked: AtomicU64,
    _server: PostgresServer,
}

/// All results about a row.
const SEEN: &str = "SELECT l::text FROM syncguard_locks l WHERE key = $1";

impl Stage {
    fn start() -> Result<Self> {
        let server = PostgresServer::builder().config("fsync = off").start()?;
        let runtime = Runtime::new()?;
        let (raw, backend) = runtime.block_on(async {
            let (raw, connection) =
                syncguard_postgres::tokio_postgres::connect(&server.url(), NoTls).await?;
            tokio::spawn(connection);
            let backend = PostgresBackend::connect(&server.url()).await?;
            backend.setup_schema().await?;
            anyhow::Ok((raw, backend))
        })?;
        Ok(Self { runtime, raw, backend, asked: AtomicU64::new(0), _server: server })
    }

    /// `None` for a row that the schema itself refuses.
    async fn ask(&self, row: &Row) -> Result<Option<Answers>> {
        let (raw, backend) = (&self.raw, &self.backend);
        // A row under another key than its own is corrupt.
        let own = Key::new(&row.user_key).map(|key| key.expose().to_owned());
        let key =
            own.unwrap_or_else(|_| format!("key-{}", self.asked.fetch_add(1, Ordering::Relaxed)));
        raw.execute("DELETE FROM syncguard_locks", &[]).await?;
        let inserted = raw
            .execute(
                "INSERT INTO syncguard_locks
                    (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
                VALUES ($1, $2, $3, $4, $5, $6)",
                &[&key, &row.lock_id, &row.expires, &row.acquired, &row.fence, &row.user_key],
            )
            .await;
        if inserted.is_err() {
            return Ok(None);
        }
        let before: String = raw.query_one(SEEN, &[&key]).await?.get(0);
        let lookup = backend.lookup(LookupRequest::by_key(key.as_str())?).await;
        let is_locked = backend.is_locked(IsLockedRequest::new(key.as_str())?).await;
        let acquire =
            backend.acquire(AcquireRequest::new(key.as_str(), Duration::from_secs(60))?).await;
        let after = raw.query_opt(SEEN, &[&key]).await?.context("a row")?;
        let is_unchanged = after.get::<_, String>(0) == before;
        Ok(Some(Answers { lookup, is_locked, acquire, is_unchanged }))
    }
}
