//! The Redis backend over the program's own client.

use syncguard_redis::fred::prelude::{Builder, ClientLike as _, Config, ReconnectPolicy};
use syncguard_redis::{RedisBackend, RedisOptions, try_acquire};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (url, key) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let client = Builder::from_config(Config::from_url(&url)?)
        .set_policy(ReconnectPolicy::new_exponential(0, 20, 1000, 2))
        .build()?;
    client.init().await?;
    let backend = RedisBackend::from_client(client.clone(), RedisOptions::new())?;
    let guard =
        try_acquire(&backend, key.as_str()).await?.acquired().ok_or("somebody else has it")?;
    println!("locked under fence {}", guard.fence());
    println!("still ours: {}", guard.release().await?.is_released());
    client.quit().await?;
    Ok(())
}
