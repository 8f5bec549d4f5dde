//! The same scripts without the library around them.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use fred::clients::Client;
use fred::interfaces::{ClientLike as _, KeysInterface as _, LuaInterface as _};
use fred::types::config::{Config, ConnectionConfig, TcpConfig};
use fred::types::{Expiration, SetOptions, Value};
use syncguard_test_services::redis::RedisServer;

/// The arguments of the scripts.
pub(crate) struct Scripts {
    acquire: String,
    release: String,
    compare_and_delete: String,
}

const TTL: &str = "30000";
const LIFE: &str = "31000";
/// The deadline of the calls: not in this century.
const DEADLINE: &str = "9999999999999";
const HOLDER: &str = "host/4711";

impl Scripts {
    pub(crate) async fn load(server: &RedisServer) -> Result<Self> {
        let client = fred(server).await?;
        let load = async |text: &str| -> Result<String> {
            Ok(client.script_load::<String, _>(text.to_owned()).await?)
        };
        let record = include_str!("../../../../../crates/syncguard-redis/src/lua/record.lua");
        let script = |text: &str| record.to_owned() + text;
        let acquire = include_str!("../../../../../crates/syncguard-redis/src/lua/acquire.lua");
        let release = include_str!("../../../../../crates/syncguard-redis/src/lua/release.lua");
        let compare_and_delete = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        Ok(Self {
            acquire: load(&script(acquire)).await?,
            release: load(&script(release)).await?,
            compare_and_delete: load(compare_and_delete).await?,
        })
    }

    pub(crate) async fn cycle_with_fred(&self, client: &Client, key: &str) -> Result<()> {
        let id = fresh_id();
        let (lock, fence, index) = names(key, &id);
        let granted: Value = client
            .evalsha(
                self.acquire.as_str(),
                vec![lock, fence, index.clone()],
                vec![id.as_str(), TTL, LIFE, key, DEADLINE, HOLDER],
            )
            .await?;
        ensure!(granted.as_str().is_some());
        let released: i64 =
            client.evalsha(self.release.as_str(), vec![index], vec![id.as_str(), DEADLINE]).await?;
        ensure!(released == 1);
        Ok(())
    }

    pub(crate) async fn plain_cycle_with_fred(&self, client: &Client, key: &str) -> Result<()> {
        let id = fresh_id();
        let expiration = Some(Expiration::PX(31_000));
        let set: Value =
            client.set(key, id.as_str(), expiration, Some(SetOptions::NX), false).await?;
        ensure!(set.as_str().is_some());
        let deleted: i64 =
            client.evalsha(self.compare_and_delete.as_str(), vec![key], vec![id.as_str()]).await?;
        ensure!(deleted == 1);
        Ok(())
    }

    pub(crate) async fn cycle_with_redis_rs(
        &self,
        mut connection: redis::aio::MultiplexedConnection,
        key: &str,
    ) -> Result<()> {
        let id = fresh_id();
        let (lock, fence, index) = names(key, &id);
        let mut acquire = redis::cmd("EVALSHA");
        acquire.arg(&self.acquire).arg(3).arg(&lock).arg(&fence).arg(&index);
        acquire.arg(&id).arg(TTL).arg(LIFE).arg(key).arg(DEADLINE).arg(HOLDER);
        let granted: String = acquire.query_async(&mut connection).await?;
        ensure!(granted.starts_with(&id));
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.release).arg(1).arg(&index).arg(&id).arg(DEADLINE);
        let released: i64 = release.query_async(&mut connection).await?;
        ensure!(released == 1);
        Ok(())
    }

    /// Each call on a key of its own.
    pub(crate) fn benchmark_acquire(&self, round: u64) -> Vec<String> {
        let key = format!("benchmark-{round}-__rand_int__");
        let (lock, fence, index) = names(&key, "BBBBBBBBBB__rand_int__");
        [
            "EVALSHA",
            &self.acquire,
            "3",
            &lock,
            &fence,
            &index,
            "AAAAAAAAAAAAAAAAAAAAAA",
            TTL,
            LIFE,
            &key,
            DEADLINE,
            HOLDER,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    pub(crate) fn benchmark_release(&self) -> Vec<String> {
        ["EVALSHA", &self.release, "1", "bench:elsewhere", "AAAAAAAAAAAAAAAAAAAAAA", DEADLINE]
            .map(str::to_owned)
            .to_vec()
    }
}

/// A lock of another client, and an index entry that leads to it.
pub(crate) async fn somebody_elses_lock(client: &Client) -> Result<()> {
    let record = r#"{"key":"other","lockId":"BBBBBBBBBBBBBBBBBBBBBB","fence":"000000000000001","acquiredAtMs":1795219708135,"expiresAtMs":9795223308135}"#;
    let _: Value = client.set("bench:other", record, None, None, false).await?;
    let _: Value = client.set("bench:elsewhere", "bench:other", None, None, false).await?;
    Ok(())
}

pub(crate) async fn fred(server: &RedisServer) -> Result<Client> {
    let tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
    let connection = ConnectionConfig { tcp, ..ConnectionConfig::default() };
    let client = Client::new(Config::from_url(&server.url())?, None, Some(connection), None);
    client.init().await?;
    Ok(client)
}

fn names(key: &str, id: &str) -> (String, String, String) {
    (format!("bench:{key}"), format!("bench:fence:bench:{key}"), format!("bench:id:{id}"))
}

pub(crate) fn fresh_key() -> String {
    format!("order:{:012}", next())
}

fn fresh_id() -> String {
    format!("AAAAAAAAAA{:012}", next())
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
