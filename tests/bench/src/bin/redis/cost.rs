//! The server's cost of a call, and the memory of a lock.

use std::time::Duration;

use anyhow::{Context as _, Result};
use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::types::{ClusterHash, CustomCommand};
use stats_alloc::Region;
use syncguard_redis::contract::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_redis::{LockBackend as _, LockId, RedisBackend, try_acquire};
use syncguard_test_services::redis::RedisServer;

use crate::floor::{self, Scripts};

const CALLS: usize = 20_000;
const TTL: Duration = Duration::from_secs(300);

/// Microseconds of the server by kind of call.
pub(crate) async fn measure(
    server: &RedisServer,
    backend: &RedisBackend,
) -> Result<Vec<(&'static str, f64)>> {
    let client = floor::fred(server).await?;
    floor::somebody_elses_lock(&client).await?;
    let scripts = Scripts::load(server).await?;
    let keys: Vec<String> = (0..CALLS).map(|number| format!("cost:{number:012}")).collect();
    let mut results = Vec::new();

    reset(&client).await?;
    let mut ids: Vec<LockId> = Vec::with_capacity(CALLS);
    for key in &keys {
        let lock = backend.acquire(AcquireRequest::new(key, TTL)?).await?;
        ids.push(lock.acquired().context("free")?.lock_id);
    }
    results.push(("acquire, free", per_call(&client, "evalsha").await?));
    reset(&client).await?;
    for key in &keys {
        let _ = backend.acquire(AcquireRequest::new(key, TTL)?).await?;
    }
    results.push(("acquire, held", per_call(&client, "evalsha").await?));
    reset(&client).await?;
    for id in &ids {
        let _ = backend.extend(ExtendRequest::new(*id, TTL)?).await?;
    }
    results.push(("extend", per_call(&client, "evalsha").await?));
    reset(&client).await?;
    for key in &keys {
        backend.is_locked(IsLockedRequest::new(key)?).await?;
    }
    results.push(("is_locked", per_call(&client, "evalsha").await?));
    reset(&client).await?;
    for key in &keys {
        backend.lookup(LookupRequest::by_key(key)?).await?;
    }
    results.push(("lookup by key", per_call(&client, "evalsha").await?));
    reset(&client).await?;
    for id in &ids {
        backend.lookup(LookupRequest::by_lock_id(*id)).await?;
    }
    results.push(("lookup by lock id", per_call(&client, "evalsha").await?));
    reset(&client).await?;
    for id in &ids {
        let _ = backend.release(ReleaseRequest::new(*id)).await?;
    }
    results.push(("release", per_call(&client, "evalsha").await?));

    reset(&client).await?;
    for key in &keys {
        scripts.plain_cycle_with_fred(&client, key).await?;
    }
    // The statistics count what a script calls as well.
    let set = per_call(&client, "set").await?;
    results.push(("(e) SET NX PX", set));
    results.push(("(e) compare and delete", per_call(&client, "evalsha").await?));
    Ok(results)
}

/// Bytes of the server per lock and per counter, and of the client per guard.
pub(crate) async fn memory(
    server: &RedisServer,
    backend: &RedisBackend,
) -> Result<Vec<(&'static str, f64)>> {
    const GUARDS: usize = 20_000;
    let client = floor::fred(server).await?;
    let _: () = client.flushall(false).await?;
    let empty = used_memory(&client).await?;
    let keys: Vec<String> = (0..GUARDS).map(|number| format!("memory:{number:012}")).collect();
    let mut guards = Vec::with_capacity(GUARDS);
    let region = Region::new(crate::ALLOCATOR);
    for key in &keys {
        guards.push(try_acquire(backend, key.as_str()).await?.acquired().context("free")?);
    }
    let change = region.change();
    let client_bytes = change.bytes_allocated - change.bytes_deallocated;
    let held = used_memory(&client).await?;
    for guard in guards {
        let _ = guard.release().await?;
    }
    let released = used_memory(&client).await?;
    let each = |bytes: f64| bytes / GUARDS as f64;
    Ok(vec![
        ("server, held lock", each(held - released)),
        ("server, counter", each(released - empty)),
        ("client, guard (heap)", each(client_bytes as f64)),
        ("client, guard (itself)", size_of::<syncguard_redis::LockGuard<RedisBackend>>() as f64),
    ])
}

async fn reset(client: &Client) -> Result<()> {
    let command = CustomCommand::new_static("CONFIG", ClusterHash::FirstKey, false);
    let _: () = client.custom(command, vec!["RESETSTAT"]).await?;
    Ok(())
}

async fn per_call(client: &Client, command: &str) -> Result<f64> {
    let stats = info(client, "commandstats").await?;
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")))
        .with_context(|| format!("{command} was not called"))?;
    let field = line.split(',').find_map(|field| field.strip_prefix("usec_per_call="));
    Ok(field.context("no usec_per_call")?.parse()?)
}

async fn used_memory(client: &Client) -> Result<f64> {
    let memory = info(client, "memory").await?;
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:"));
    Ok(used.context("no used_memory")?.trim().parse()?)
}

async fn info(client: &Client, section: &'static str) -> Result<String> {
    let command = CustomCommand::new_static("INFO", ClusterHash::FirstKey, false);
    Ok(client.custom(command, vec![section]).await?)
}
