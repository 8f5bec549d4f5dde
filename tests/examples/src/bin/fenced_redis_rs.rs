//! Fenced writes with redis-rs, in two forms: a script, and a transaction with WATCH and MULTI for data that a script
//! cannot or must not change.
//!
//! ```console
//! $ docker run --rm -d -p 6379:6379 redis
//! $ cargo run -p syncguard-examples --bin fenced_redis_rs -- redis://127.0.0.1
//! ```
//!
//! The URL may also be in `SYNCGUARD_STORE`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, Client, RedisResult, Script, cmd, pipe};
use syncguard::fenced::{check, precondition, redis as fenced};
use syncguard::redis::RedisBackend;
use syncguard::{Fence, LockConfig, acquire};

/// Sets a value unless a holder with a higher fence has written before; returns whether it did. The two names share a
/// hash tag, for a cluster.
async fn set(
    connection: &mut MultiplexedConnection,
    name: &str,
    value: &str,
    fence: Fence,
) -> RedisResult<bool> {
    let data = format!("{{{name}}}:value");
    let script = Script::new(fenced::SCRIPT);
    let mut call = script.key(format!("{{{name}}}:fence"));
    call.key(&data).arg(fenced::arguments(fence, [["SET", &data, value]]));
    let answer: i64 = call.invoke_async(connection).await?;
    Ok(check(fence, answer).is_ok())
}

/// The same without a script, on a hash with the value and the fence. The hash must neither expire nor be evicted. The connection is used for nothing else, because the watch belongs to it: no other task
/// may send commands on it meanwhile.
async fn set_in_a_transaction(
    client: &Client,
    key: &str,
    value: &str,
    fence: Fence,
) -> RedisResult<bool> {
    let mut own = client.get_multiplexed_async_connection().await?;
    loop {
        cmd("WATCH").arg(key).exec_async(&mut own).await?;
        let stored: Option<String> = own.hget(key, "fence").await?;
        // The watch is the condition.
        if precondition(fence, Some(((), stored.as_deref()))).is_err() {
            return Ok(false);
        }
        let mut write = pipe();
        write.atomic().hset(key, "fence", fence.to_string()).hset(key, "value", value);
        // Nothing is written if the key was changed since the watch; then the value is read again.
        let written: Option<(u32, u32)> = write.query_async(&mut own).await?;
        if written.is_some() {
            return Ok(true);
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::args().nth(1).or_else(|| env::var("SYNCGUARD_STORE").ok());
    let url = url.as_deref().unwrap_or("redis://127.0.0.1");
    let backend = RedisBackend::connect(url).await?;
    let client = Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;

    // A holder stalls: its lock expires while the holder believes that it holds it, and another holder takes over.
    let config = LockConfig::new("profile:7").with_ttl(Duration::from_millis(100));
    let stalled = acquire(&backend, config).await?;
    let successor = acquire(&backend, "profile:7").await?;

    for (who, guard, value) in [("successor", &successor, "new"), ("stalled one", &stalled, "old")]
    {
        let fence = guard.fence();
        let written = set(&mut connection, "profile:7", value, fence).await?;
        println!("the {who} writes under fence {fence}: {written}");
        let written = set_in_a_transaction(&client, "data:multi", value, fence).await?;
        println!("the {who} writes in a transaction under fence {fence}: {written}");
    }
    println!("released: {}", successor.release().await?.is_released());
    Ok(())
}
