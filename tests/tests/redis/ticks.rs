//! Ticks of a process whose clock is wrong, and ticks beside the TypeScript library.

use anyhow::{Context as _, Result, ensure};
use syncguard_redis::LockId;
use syncguard_test_services::redis::RedisServer;
use syncguard_tests::ticks::{Clock, outlast_a_stepped_clock, share_the_key};

use crate::redis::support::{Raw, backend};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_stepped_uses_up_no_tick() -> Result<()> {
    let server = RedisServer::start()?;
    let right = [backend(&server).await, backend(&server).await];
    outlast_a_stepped_clock(right, backend(&server).await, &Clock::default()).await
}

/// An acquire of the TypeScript library, by its records.
const ACQUIRE: &str = "local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fence = string.format('%015d', redis.call('INCR', KEYS[3]))
local lock = { lockId = ARGV[1], expiresAtMs = now + 60000, acquiredAtMs = now, key = ARGV[2], fence = fence }
redis.call('SET', KEYS[1], cjson.encode(lock), 'PX', 60000)
redis.call('SET', KEYS[2], KEYS[1], 'PX', 60000)
return fence";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_lock_of_the_typescript_library_uses_up_a_fence() -> Result<()> {
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let index = |id: &str| format!("syncguard:id:{id}");
    let acquire = async |key: &str| {
        let id = LockId::generate()?;
        let lock = format!("syncguard:{key}");
        let counter = format!("syncguard:fence:{lock}");
        ensure!(raw.number("EXISTS", &[&lock]).await == 0, "the key is free");
        let arguments = [ACQUIRE, "3", &lock, &index(id.expose()), &counter, id.expose(), key];
        let fence = raw.text("EVAL", &arguments).await.context("a fence")?;
        Ok((fence.parse()?, id))
    };
    let release = async |id: LockId| {
        let index = index(id.expose());
        let lock = raw.text("GET", &[&index]).await.context("a lock")?;
        ensure!(raw.number("DEL", &[&lock, &index]).await == 2);
        Ok(())
    };
    share_the_key(backend(&server).await, acquire, release).await
}
