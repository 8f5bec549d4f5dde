//! Fenced writes in Redis: a holder that lost its lock without noticing cannot overwrite what its
//! successor wrote.
//!
//! ```console
//! $ docker run --rm -d -p 6379:6379 redis
//! $ cargo run -p syncguard --features redis --example fenced_write_redis
//! ```
//!
//! Another server: `-- redis://user:password@host`, or `SYNCGUARD_URL`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::time::Duration;

use syncguard::redis::fred::prelude::{
    Builder, Client, ClientLike as _, Config, Error, LuaInterface as _, ReconnectPolicy,
};
use syncguard::redis::{RedisBackend, RedisOptions};
use syncguard::{Fence, LockConfig, acquire};

/// Sets a value unless a holder with a higher fence has done so before. Returns whether it wrote.
///
/// The fence is kept beside the value, and a script compares and writes, which Redis does in one
/// step. A driver that sends the script twice after a broken connection does no harm. The hash must
/// neither expire nor be evicted, because it holds the highest fence.
async fn set(client: &Client, key: &str, value: &str, fence: Fence) -> Result<bool, Error> {
    client.eval(SET, key, vec![fence.to_string(), value.to_owned()]).await
}

/// `>` and not `>=`, because a holder may write more than once, and no two holders have the same
/// fence.
const SET: &str = "
    local highest = redis.call('HGET', KEYS[1], 'fence')
    if highest and tonumber(highest) > tonumber(ARGV[1]) then
        return 0
    end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
    return 1";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::args().nth(1).or_else(|| env::var("SYNCGUARD_URL").ok());
    let client = connect(url.as_deref().unwrap_or("redis://127.0.0.1")).await?;
    // The locks share the program's connection. With `RedisBackend::connect` they have their own.
    let backend = RedisBackend::from_client(client.clone(), RedisOptions::new())?;

    // A holder stalls and does not notice that its lock expires. A successor takes over.
    let config = LockConfig::new("profile:7").with_ttl(Duration::from_millis(100));
    let stalled = acquire(&backend, config).await?;
    let successor = acquire(&backend, "profile:7").await?;

    let written = set(&client, "data:profile:7", "new", successor.fence()).await?;
    println!("the successor writes under fence {}: {written}", successor.fence());
    let written = set(&client, "data:profile:7", "old", stalled.fence()).await?;
    println!("the stalled one writes under fence {}: {written}", stalled.fence());

    println!("released: {}", successor.release().await?.is_released());
    client.quit().await?;
    Ok(())
}

async fn connect(url: &str) -> Result<Client, Error> {
    let client = Builder::from_config(Config::from_url(url)?)
        // Without these fred waits for ever, and does not come back after a lost connection.
        .set_policy(ReconnectPolicy::new_exponential(0, 50, 1000, 2))
        .with_connection_config(|config| config.connection_timeout = Duration::from_secs(5))
        .with_performance_config(|config| config.default_command_timeout = Duration::from_secs(2))
        .build()?;
    client.init().await?;
    Ok(client)
}
