//! Minimal scripts of a lock, through raw fred.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fred::clients::{Client, SubscriberClient};
use fred::interfaces::{
    ClientLike as _, EventInterface as _, LuaInterface as _, PubsubInterface as _,
};
use fred::types::Message;
use fred::types::config::Config;
use syncguard_bench::clients::{redis as connect, redis_connection};
use tokio::sync::broadcast::Receiver;

use super::{Floor, Party, Signals};

const ACQUIRE: &str = "if redis.call('GET', KEYS[1]) then return redis.call('PTTL', KEYS[1]) end
local fence = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[3], KEYS[1], 'PX', ARGV[2])
redis.call('SET', KEYS[1], ARGV[1] .. string.format('%015d', fence), 'PX', ARGV[2])
return ARGV[1]";

const RELEASE: &str = "local text = redis.call('GET', KEYS[1])
if string.sub(text, 1, 22) ~= ARGV[1] then return 0 end
redis.call('PUBLISH', KEYS[1], '1')
return redis.call('DEL', KEYS[1], KEYS[2])";

const KEY: &str = "floor:key";
const ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

struct Connection {
    client: Client,
    acquire: String,
    release: String,
}

impl Connection {
    async fn new(url: &str) -> Result<Self> {
        let client = connect(url).await?;
        let acquire = client.script_load(ACQUIRE).await?;
        let release = client.script_load(RELEASE).await?;
        Ok(Self { client, acquire, release })
    }
}

impl Party for Connection {
    async fn acquire(&self) -> Result<()> {
        let keys = vec![KEY, "floor:fence", "floor:id"];
        let id: String =
            self.client.evalsha(self.acquire.as_str(), keys, vec![ID, "31000"]).await?;
        ensure!(id == ID);
        Ok(())
    }

    async fn release_and_signal(&self) -> Result<()> {
        let keys = vec![KEY, "floor:id"];
        let count: u64 = self.client.evalsha(self.release.as_str(), keys, vec![ID]).await?;
        ensure!(count == 2);
        Ok(())
    }
}

pub(crate) async fn measure(url: &str, time: Duration) -> Result<Floor> {
    let parties = [Connection::new(url).await?, Connection::new(url).await?];
    let listener =
        SubscriberClient::new(Config::from_url(url)?, None, Some(redis_connection()), None);
    listener.init().await?;
    let signals = listener.message_rx();
    listener.subscribe(KEY).await?;
    super::measure(parties, signals, time).await
}

impl Signals for Receiver<Message> {
    const ALWAYS: bool = true;

    async fn next(&mut self) -> Result<()> {
        self.recv().await.map(drop).context("a signal")
    }
}
