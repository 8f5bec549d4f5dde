//! A client that only polls: the TypeScript library, by its records and its pauses.

use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use fred::clients::Client as RedisClient;
use fred::interfaces::LuaInterface as _;
use syncguard_core::LockId;
use syncguard_core::authoring::pause::jittered;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::{CommitRequest, Document};
use syncguard_firestore::gcloud_sdk::tonic::Code;
use syncguard_postgres::tokio_postgres::{Client as PostgresClient, Statement};

use super::Lock;
use crate::clock;
use crate::floor::{self, firestore::write};
use crate::job::Store;
use crate::support::{Raw, document, text};

const TTL_MS: u64 = 30_000;

/// How often the client looks again. The pauses double from 100 ms on, half of each is random, and 5 s are the limit.
const RETRIES: u32 = 10;

pub(crate) struct Poller {
    store: Store,
    client: Client,
}

enum Client {
    Redis(RedisClient),
    Postgres { client: PostgresClient, take: Statement, give_back: Statement },
    Firestore(Raw),
}

impl Poller {
    pub(crate) async fn new(store: &Store) -> Result<Self> {
        let client = match store {
            Store::Redis { url } => Client::Redis(floor::redis::client(url).await?),
            Store::Postgres { port, .. } => {
                let client = floor::postgres::connect(*port).await?;
                let take = client.prepare(POSTGRES_TAKE).await?;
                let give_back = client.prepare(POSTGRES_GIVE_BACK).await?;
                Client::Postgres { client, take, give_back }
            }
            Store::Firestore { url, port } => Client::Firestore(Raw::at(url, *port)),
            store => bail!("nobody polls {store:?}"),
        };
        Ok(Self { store: store.clone(), client })
    }

    async fn take(&self, key: &str, id: &str) -> Result<bool> {
        match &self.client {
            Client::Redis(client) => {
                let keys = [format!("syncguard:{key}"), format!("syncguard:id:{id}")];
                let fences = format!("syncguard:fence:{}", keys[0]);
                let keys = vec![keys[0].as_str(), keys[1].as_str(), fences.as_str()];
                let arguments = vec![id.to_owned(), key.to_owned(), TTL_MS.to_string()];
                Ok(client.eval::<u64, _, _, _>(REDIS_TAKE, keys, arguments).await? == 1)
            }
            Client::Postgres { client, take, .. } => {
                let ttl = i64::try_from(TTL_MS)?;
                Ok(client.execute(take, &[&key, &id, &ttl]).await? == 1)
            }
            Client::Firestore(raw) => {
                let now = u64::try_from(SystemTime::UNIX_EPOCH.elapsed()?.as_millis())?;
                let whole = |value| i64::try_from(value).map(ValueType::IntegerValue);
                let fields = [
                    ("lockId", text(id)),
                    ("expiresAtMs", whole(now + TTL_MS)?),
                    ("acquiredAtMs", whole(now)?),
                    ("key", text(key)),
                    ("fence", text("000000000000001")),
                ];
                let lock: Document = document(raw.name(&format!("locks/{key}")), fields);
                let create = write(Operation::Update(lock), ConditionType::Exists(false));
                commit(raw, create).await
            }
        }
    }

    async fn give_back(&self, key: &str, id: &str) -> Result<bool> {
        match &self.client {
            Client::Redis(client) => {
                let keys = vec![format!("syncguard:{key}"), format!("syncguard:id:{id}")];
                Ok(client.eval::<u64, _, _, _>(REDIS_GIVE_BACK, keys, id).await? == 2)
            }
            Client::Postgres { client, give_back, .. } => {
                Ok(client.execute(give_back, &[&id]).await? == 1)
            }
            Client::Firestore(raw) => {
                let name = raw.name(&format!("locks/{key}"));
                commit(raw, write(Operation::Delete(name), ConditionType::Exists(true))).await
            }
        }
    }

    async fn polls(&self, key: &str, id: &str) -> Result<bool> {
        const LIMIT: Duration = Duration::from_secs(5);
        let began = clock::now();
        for retry in 0..=RETRIES {
            if self.take(key, id).await? {
                return Ok(true);
            }
            let pause = Duration::from_millis(100 << retry).min(LIMIT);
            let left = LIMIT.saturating_sub(Duration::from_nanos(clock::now() - began));
            let pause = jittered(pause);
            tokio::time::sleep(pause.min(left)).await;
            if left <= pause {
                break;
            }
        }
        Ok(false)
    }
}

impl Lock for Poller {
    /// The key and the id.
    type Guard = (String, String);

    async fn for_waiter(&self) -> Result<Self> {
        Self::new(&self.store).await
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard, String> {
        let id = LockId::generate().map_err(|error| error.to_string())?.expose().to_owned();
        match self.polls(key, &id).await {
            Ok(true) => Ok((key.to_owned(), id)),
            Ok(false) => Err("AcquisitionTimeout".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn release(&self, (key, id): Self::Guard) -> Result<(), String> {
        match self.give_back(&key, &id).await {
            Ok(true) => Ok(()),
            Ok(false) => Err("release: the lock was gone".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Whether the condition held.
async fn commit(
    raw: &Raw,
    write: syncguard_firestore::gcloud_sdk::google::firestore::v1::Write,
) -> Result<bool> {
    let database = raw.database.clone();
    let request = CommitRequest { database, writes: vec![write], ..CommitRequest::default() };
    match raw.client.clone().commit(request).await {
        Ok(_) => Ok(true),
        Err(status)
            if matches!(
                status.code(),
                Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted
            ) =>
        {
            Ok(false)
        }
        Err(status) => Err(status.into()),
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
