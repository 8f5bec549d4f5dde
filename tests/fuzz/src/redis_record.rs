//! Records in Redis, read by its scripts, on a server that this starts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use serde_json::Value as Json;
use syncguard_redis::contract::{AcquireRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_redis::{Fence, Key, LockBackend as _, LockId, RedisBackend, ReleaseResult};
use syncguard_test_services::redis::RedisServer;
use tokio::runtime::Runtime;

use crate::expected::{Answers, Expected, lock, now};

/// In a record, this becomes a future time, because a corpus does not know when it is read.
const LATER: &str = "@LATER@";

/// Any bytes under the name of a lock. The index entry of another lock points to the same name.
pub fn check_redis_record(input: &[u8]) {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    let stage = STAGE.get_or_init(|| Stage::start().expect("a Redis server"));
    let later = (now() + 3_600_000).to_string();
    let record = match std::str::from_utf8(input) {
        Ok(text) => text.replace(LATER, &later).into_bytes(),
        Err(_) => input.to_vec(),
    };
    let expected = expected(&record);
    let answers = stage.runtime.block_on(stage.ask(&record)).expect("an answer");
    answers.check(expected);
}

struct Stage {
    runtime: Runtime,
    raw: MultiplexedConnection,
    backend: RedisBackend,
    asked: AtomicU64,
    _server: RedisServer,
}

impl Stage {
    fn start() -> Result<Self> {
        let server = RedisServer::start()?;
        let runtime = Runtime::new()?;
        let (raw, backend) = runtime.block_on(async {
            let raw = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
            anyhow::Ok((raw, RedisBackend::connect(&server.url()).await?))
        })?;
        Ok(Self { runtime, raw, backend, asked: AtomicU64::new(0), _server: server })
    }

    async fn ask(&self, record: &[u8]) -> Result<Answers> {
        let (mut raw, backend) = (self.raw.clone(), &self.backend);
        let key = format!("key-{}", self.asked.fetch_add(1, Ordering::Relaxed));
        let name = format!("syncguard:{key}");
        let foreign = LockId::generate()?;
        let index = format!("syncguard:id:{}", foreign.expose());
        let () = raw.set(&name, record).await?;
        let () = raw.set(&index, &name).await?;
        // No lock is released by another id.
        let released = backend.release(ReleaseRequest::new(foreign)).await;
        let is_released = released.is_ok_and(ReleaseResult::is_released);
        let before: Vec<u8> = raw.get(&name).await?;
        assert!(!is_released && before == record, "released by another id");
        let () = raw.del(&index).await?;

        let lookup = backend.lookup(LookupRequest::by_key(key.as_str())?).await;
        let is_locked = backend.is_locked(IsLockedRequest::new(key.as_str())?).await;
        let acquire =
            backend.acquire(AcquireRequest::new(key.as_str(), Duration::from_secs(60))?).await;
        let after: Option<Vec<u8>> = raw.get(&name).await?;
        let is_unchanged = after.context("a record")? == record;
        let () = raw.del(&name).await?;
        Ok(Answers { lookup, is_locked, acquire, is_unchanged })
    }
}

/// By the rules of the scripts, for JSON on which all parsers agree.
fn expected(record: &[u8]) -> Expected {
    let Ok(Json::Object(fields)) = serde_json::from_slice(record) else {
        return Expected::Unsure;
    };
    let text = |field: &str| fields.get(field).and_then(Json::as_str);
    let number = |field: &str| {
        let number = fields.get(field)?.as_f64()?;
        let is_time = number.fract() == 0.0 && (0.0..=9_007_199_254_740_991.0).contains(&number);
        // Zero may have a sign.
        is_time.then(|| format!("{:.0}", number.abs()).parse::<u64>().ok()).flatten()
    };
    let id = text("lockId").and_then(|id| LockId::new(id).ok());
    let fence = text("fence")
        .filter(|digits| digits.len() == 15 && digits.bytes().all(|it| it.is_ascii_digit()));
    let key = text("key").filter(|key| !key.is_empty());
    let times = number("acquiredAtMs").zip(number("expiresAtMs"));
    let (Some(_), Some(fence), Some(key), Some((_, expires))) = (id, fence, key, times) else {
        return Expected::Refused;
    };
    // The scripts leave the rest of the checks to the client.
    match (Key::new(key), fence.parse::<Fence>()) {
        (Ok(_), Ok(fence)) => lock(expires, fence),
        _ => Expected::Unsure,
    }
}
