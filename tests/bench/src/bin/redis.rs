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
use syncguard_bench::{Options, Report, Table, Way, clients, cycle};
use syncguard_redis::RedisBackend;
use syncguard_test_services::redis::RedisServer;

const CALLERS: [usize; 4] = [1, 16, 64, 256];

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&[])?;
    let time = options.time(200, 600)?;
    let server = RedisServer::start()?;
    let mut report = Report::default();
    for callers in CALLERS {
        let ways = vec![
            Locks::Backend(RedisBackend::connect(&server.url()).await?),
            Locks::Fred(Scripts::load(clients::redis(&server.url()).await?).await?),
            Locks::Rslock(rslock::LockManager::new(vec![server.url()])),
        ];
        let table = Table::measure(ways, callers, time).await?;
        table.print("");
        let (of_fred, of_rslock) = (table.ratio(0, 1), table.ratio(0, 2));
        report.at_least(&format!("{callers} at once, cycles of (b)"), of_fred, 0.8);
        println!("    cycles of (c): {of_rslock:.2}");
        report.ratio(callers, "the same scripts on fred", of_fred);
        report.ratio(callers, "rslock, which has no fence", of_rslock);
    }
    report.end("redis", options.check)
}

#[derive(Clone)]
enum Locks {
    Backend(RedisBackend),
    Fred(Arc<Scripts>),
    Rslock(rslock::LockManager),
}

impl Way for Locks {
    fn name(&self) -> &'static str {
        match self {
            Self::Backend(_) => "(a) syncguard-redis",
            Self::Fred(_) => "(b) same scripts, raw fred",
            Self::Rslock(_) => "(c) rslock",
        }
    }

    async fn cycle(&self, task: usize) -> Result<()> {
        let key = format!("order:{task:012}");
        match self {
            Self::Backend(backend) => cycle(backend, &key).await,
            Self::Fred(scripts) => scripts.cycle(&key).await,
            Self::Rslock(manager) => {
                let lock = manager.lock(key.as_bytes(), Duration::from_secs(30)).await?;
                manager.unlock(&lock).await;
                Ok(())
            }
        }
    }
}

/// The scripts of the backend without the library around them.
struct Scripts {
    client: Client,
    acquire: String,
    release: String,
}

impl Scripts {
    async fn load(client: Client) -> Result<Arc<Self>> {
        let record = include_str!("../../../../crates/syncguard-redis/src/lua/record.lua");
        let acquire = include_str!("../../../../crates/syncguard-redis/src/lua/acquire.lua");
        let release = include_str!("../../../../crates/syncguard-redis/src/lua/release.lua");
        let acquire = client.script_load(record.to_owned() + acquire).await?;
        let release = client.script_load(record.to_owned() + release).await?;
        Ok(Arc::new(Self { client, acquire, release }))
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
