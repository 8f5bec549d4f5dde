//! A client that only polls: the TypeScript library, by its records, which have no holder, and its pauses.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fred::clients::Client as RedisClient;
use fred::interfaces::LuaInterface as _;
use syncguard_bench::{Lock, clients, clock};
use syncguard_core::Jitter;
use syncguard_core::LockId;
use syncguard_postgres::tokio_postgres::{self, Client as PostgresClient, NoTls};

const TTL_MS: u32 = 30_000;

/// How often the client looks again. The pauses double from 100 ms on, half of each is random, and 5 s are the limit.
const RETRIES: u32 = 10;
const LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) enum Poller {
    Redis(RedisClient),
    Postgres(Arc<PostgresClient>),
}

impl Poller {
    pub(crate) async fn new(url: &str) -> Result<Self> {
        if url.starts_with("redis:") {
            return Ok(Self::Redis(clients::redis(url).await?));
        }
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self::Postgres(Arc::new(client)))
    }

    async fn take(&self, key: &str, id: &str) -> Result<bool> {
        match self {
            Self::Redis(client) => {
                let lock = format!("syncguard:{key}");
                let fences = format!("syncguard:fence:{lock}");
                let keys = vec![lock, format!("syncguard:id:{id}"), fences];
                let arguments = vec![id.to_owned(), key.to_owned(), TTL_MS.to_string()];
                Ok(client.eval::<u64, _, _, _>(REDIS_TAKE, keys, arguments).await? == 1)
            }
            Self::Postgres(client) => {
                let ttl = i64::from(TTL_MS);
                Ok(client.execute(POSTGRES_TAKE, &[&key, &id, &ttl]).await? == 1)
            }
        }
    }

    async fn give_back(&self, key: &str, id: &str) -> Result<bool> {
        match self {
            Self::Redis(client) => {
                let keys = vec![format!("syncguard:{key}"), format!("syncguard:id:{id}")];
                Ok(client.eval::<u64, _, _, _>(REDIS_GIVE_BACK, keys, id).await? == 2)
            }
            Self::Postgres(client) => Ok(client.execute(POSTGRES_GIVE_BACK, &[&id]).await? == 1),
        }
    }
}

impl Lock for Poller {
    /// The key and the id.
    type Guard = (String, String);

    async fn acquire(&self, key: &str) -> Result<Self::Guard, String> {
        let id = LockId::generate().map_err(|error| error.to_string())?.expose().to_owned();
        let began = clock::now();
        for retry in 0..=RETRIES {
            if self.take(key, &id).await.map_err(|error| error.to_string())? {
                return Ok((key.to_owned(), id));
            }
            let left = LIMIT.saturating_sub(Duration::from_nanos(clock::now() - began));
            let pause = Jitter::Equal.of(Duration::from_millis(100 << retry).min(LIMIT));
            tokio::time::sleep(pause.min(left)).await;
            if left <= pause {
                break;
            }
        }
        Err("AcquisitionTimeout".to_owned())
    }

    async fn release(&self, (key, id): Self::Guard) -> Result<(), String> {
        match self.give_back(&key, &id).await {
            Ok(true) => Ok(()),
            Ok(false) => Err("release: the lock was gone".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

const REDIS_TAKE: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fence = string.format('%015d', redis.call('INCR', KEYS[3]))
local lock = { lockId = ARGV[1], expiresAtMs = now + ARGV[3], acquiredAtMs = now, key = ARGV[2], fence = fence }
redis.call('SET', KEYS[1], cjson.encode(lock), 'PX', ARGV[3])
redis.call('SET', KEYS[2], KEYS[1], 'PX', ARGV[3])
return 1";

const REDIS_GIVE_BACK: &str = "local text = redis.call('GET', KEYS[1])
if not text or cjson.decode(text).lockId ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1], KEYS[2])";

const POSTGRES_TAKE: &str = "WITH free AS (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
    WHERE NOT EXISTS (SELECT FROM syncguard_locks WHERE key = $1)
), next AS (
    INSERT INTO syncguard_fence_counters SELECT 'fence:' || $1, 1, NULL FROM free
    ON CONFLICT (fence_key) DO UPDATE SET fence = syncguard_fence_counters.fence + 1 RETURNING fence
)
INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
SELECT $1, $2, now + $3, now, lpad(fence::text, 15, '0'), $1 FROM free, next
ON CONFLICT DO NOTHING";

const POSTGRES_GIVE_BACK: &str = "DELETE FROM syncguard_locks WHERE lock_id = $1";
