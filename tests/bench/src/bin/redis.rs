//! `cargo xtask bench redis`: cycles of acquire and release, each on an uncontended key.
//!
//! A table goes to the terminal, the ratios to `target/bench/redis.json`. The target is against (b), the same scripts
//! sent by the same driver. (c) keeps one key a lock and no fence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use fred::clients::Client;
use fred::interfaces::LuaInterface as _;
use fred::types::Value;
use syncguard_bench::{Options, Report, Table, Way, clients};
use syncguard_redis::RedisBackend;
use syncguard_test_services::redis::RedisServer;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&[])?;
    let (time, mut report) = (options.time(600)?, Report::default());
    let server = RedisServer::start()?;
    for callers in [1, 16, 64, 256] {
        let scripts = Scripts::load(clients::redis(&server.url()).await?).await?;
        let rslock = rslock::LockManager::new(vec![server.url()]);
        let ways = vec![
            Way::backend("(a) syncguard-redis", RedisBackend::connect(&server.url()).await?),
            Way::new("(b) same scripts, raw fred", Arc::new(scripts), |scripts, key| async move {
                scripts.cycle(&key).await
            }),
            Way::new("(c) rslock", rslock, |rslock, key| async move {
                let lock = rslock.lock(key.as_bytes(), Duration::from_secs(30)).await?;
                rslock.unlock(&lock).await;
                Ok(())
            }),
        ];
        let table = Table::measure(ways, callers, "", time).await?;
        table.compare([0, 1], Some(0.8), Some("the same scripts on fred"), &mut report);
        table.compare([0, 2], None, Some("rslock, which has no fence"), &mut report);
    }
    report.end("redis", options.check)
}

/// The scripts of the backend without the library around them.
struct Scripts {
    client: Client,
    acquire: String,
    release: String,
}

impl Scripts {
    async fn load(client: Client) -> Result<Self> {
        let record = include_str!("../../../../crates/syncguard-redis/src/lua/record.lua");
        let acquire = include_str!("../../../../crates/syncguard-redis/src/lua/acquire.lua");
        let release = include_str!("../../../../crates/syncguard-redis/src/lua/release.lua");
        let acquire = client.script_load(record.to_owned() + acquire).await?;
        let release = client.script_load(record.to_owned() + release).await?;
        Ok(Self { client, acquire, release })
    }

    async fn cycle(&self, key: &str) -> Result<()> {
        const TTL: &str = "30000";
        const LIFE: &str = "31000";
        /// Not in this century.
        const DEADLINE: &str = "9999999999999";
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = format!("AAAAAAAAAA{:012}", NEXT.fetch_add(1, Ordering::Relaxed));
        let (lock, index) = (format!("bench:{key}"), format!("bench:id:{id}"));
        let names = vec![lock.clone(), format!("bench:fence:{lock}"), index.clone()];
        let arguments = vec![id.as_str(), TTL, LIFE, key, DEADLINE, "host/4711"];
        let granted: Value = self.client.evalsha(self.acquire.as_str(), names, arguments).await?;
        ensure!(granted.as_str().is_some());
        let arguments = vec![id.as_str(), DEADLINE];
        let released: i64 =
            self.client.evalsha(self.release.as_str(), vec![index], arguments).await?;
        ensure!(released == 1);
        Ok(())
    }
}
