//! Fenced writes in Redis: a holder that lost its lock without noticing cannot overwrite what its
//! successor wrote.
//!
//! ```console
//! $ docker run --rm -d -p 6379:6379 redis
//! $ cargo run -p syncguard --features redis --example fenced_write_redis
//! ```
//!
//! Another server: `-- redis://user:password@host`, or `SYNCGUARD_STORE`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::time::Duration;

use syncguard::fenced::{check, redis as fenced};
use syncguard::redis::fred::prelude::{
    Builder, Client, ClientLike as _, Config, Error, LuaInterface as _, ReconnectPolicy, Value,
};
use syncguard::redis::{RedisBackend, RedisOptions};
use syncguard::{Fence, LockConfig, acquire};

/// Sets a value unless a holder with a higher fence has done so before. Returns whether it wrote.
///
/// A key beside the data remembers the fence, and a script compares it and runs the commands, which
/// Redis does in one step. The two names share a hash tag, for a cluster. A driver that sends the
/// script twice after a broken connection does no harm.
async fn set(client: &Client, name: &str, value: &str, fence: Fence) -> Result<bool, Error> {
    let data = format!("{{{name}}}:value");
    let arguments = fenced::arguments(fence, [["SET", &data, value]]);
    let arguments: Vec<Value> = arguments.into_iter().map(|it| Value::Bytes(it.into())).collect();
    let keys = vec![format!("{{{name}}}:fence"), data.clone()];
    let answer: i64 = client.eval(fenced::SCRIPT, keys, arguments).await?;
    Ok(check(fence, answer).is_ok())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::args().nth(1).or_else(|| env::var("SYNCGUARD_STORE").ok());
    let client = connect(url.as_deref().unwrap_or("redis://127.0.0.1")).await?;
    // The locks share the program's connection. With `RedisBackend::connect` they have their own.
    let backend = RedisBackend::from_client(client.clone(), RedisOptions::new())?;

    // A holder stalls and does not notice that its lock expires. A successor takes over.
    let config = LockConfig::new("profile:7").with_ttl(Duration::from_millis(100));
    let stalled = acquire(&backend, config).await?;
    let successor = acquire(&backend, "profile:7").await?;

    let written = set(&client, "profile:7", "new", successor.fence()).await?;
    println!("the successor writes under fence {}: {written}", successor.fence());
    let written = set(&client, "profile:7", "old", stalled.fence()).await?;
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
