//! Processes with labels, processes without, and clients like the TypeScript library on the same keys.

#![allow(clippy::print_stdout, reason = "counts for a human eye")]

use anyhow::Result;
use fred::interfaces::LuaInterface as _;
use syncguard_redis::{LockId, RedisBackend, RedisOptions};
use syncguard_test_effort::either;
use syncguard_tests::labels::{Other, Site, Size, Tables, run};

use crate::redis::support::{Raw, fresh, shared};

struct Redis {
    prefix: String,
}

impl Site for Redis {
    type Other = TypeScript;

    async fn connect(&self, label: &str) -> Result<syncguard::DynBackend> {
        let options = RedisOptions::new().with_key_prefix(&self.prefix).with_holder(label);
        let backend = RedisBackend::connect_with(&shared().url(), options).await?;
        Ok(syncguard::DynBackend::new(backend))
    }

    async fn other(&self) -> Result<TypeScript> {
        Ok(TypeScript { raw: Raw::connect(&shared().url()).await, prefix: self.prefix.clone() })
    }

    /// A record that expires goes.
    async fn expire(&self, _: &str) -> Result<bool> {
        Ok(false)
    }

    async fn migrate(&self) -> Result<()> {
        Ok(())
    }
}

/// Writes the records of the TypeScript library.
struct TypeScript {
    raw: Raw,
    prefix: String,
}

impl Other for TypeScript {
    async fn acquire(&mut self, key: &str, lock_id: LockId) -> Result<Option<u64>> {
        const SCRIPT: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local number = redis.call('INCR', KEYS[3])
local fence = string.format('%015d', number)
local lock = { lockId = ARGV[1], expiresAtMs = now + 60000, acquiredAtMs = now, key = ARGV[2], fence = fence }
redis.call('SET', KEYS[1], cjson.encode(lock), 'PX', 60000)
redis.call('SET', KEYS[2], KEYS[1], 'PX', 60000)
return number";
        let name = format!("{}:{key}", self.prefix);
        let id = lock_id.expose().to_owned();
        let index = format!("{}:id:{id}", self.prefix);
        let fences = format!("{}:fence:{name}", self.prefix);
        let arguments = vec![id, key.to_owned()];
        let fence: u64 = self.raw.0.eval(SCRIPT, vec![name, index, fences], arguments).await?;
        Ok((fence > 0).then_some(fence))
    }

    async fn release(&mut self, lock_id: LockId) -> Result<bool> {
        const SCRIPT: &str = "local name = redis.call('GET', KEYS[1])
if not name or cjson.decode(redis.call('GET', name)).lockId ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1], name)";
        let id = lock_id.expose().to_owned();
        let index = format!("{}:id:{id}", self.prefix);
        Ok(self.raw.0.eval::<u64, _, _, _>(SCRIPT, index, id).await? == 2)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lookup_shows_the_label_of_another_lock() -> Result<()> {
    let size = Size { labelled: 2, unlabelled: 1, others: 2, rounds: either(60, 2_000) };
    println!("{}", run(Redis { prefix: fresh("labels") }, Tables::Ours, size).await?);
    Ok(())
}
