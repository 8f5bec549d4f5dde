//! Minimal scripts of a lock, through raw fred.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fred::clients::{Client, SubscriberClient};
use fred::interfaces::{
    ClientLike as _, EventInterface as _, LuaInterface as _, PubsubInterface as _,
};
use fred::types::config::{Config, ConnectionConfig, TcpConfig};

use super::{Floor, WORK};
use crate::clock;
use crate::figures::Sorted;

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

/// One of two clients that take the lock by turns.
struct Party {
    client: Client,
    acquire: String,
    release: String,
}

impl Party {
    async fn new(url: &str) -> Result<Self> {
        let client = client(url).await?;
        let acquire = client.script_load(ACQUIRE).await?;
        let release = client.script_load(RELEASE).await?;
        Ok(Self { client, acquire, release })
    }

    async fn acquire(&self) -> Result<()> {
        let keys = vec![KEY, "floor:fence", "floor:id"];
        let id: String =
            self.client.evalsha(self.acquire.as_str(), keys, vec![ID, "31000"]).await?;
        ensure!(id == ID);
        Ok(())
    }

    async fn release(&self) -> Result<()> {
        let keys = vec![KEY, "floor:id"];
        let count: u64 = self.client.evalsha(self.release.as_str(), keys, vec![ID]).await?;
        ensure!(count == 2);
        Ok(())
    }
}

pub(crate) async fn measure(url: &str, time: Duration) -> Result<Floor> {
    let (one, other) = (Party::new(url).await?, Party::new(url).await?);
    let listener = SubscriberClient::new(Config::from_url(url)?, None, Some(connection()), None);
    listener.init().await?;
    let mut signals = listener.message_rx();
    listener.subscribe(KEY).await?;

    let (mut inside, mut between) = (Vec::new(), Vec::new());
    let end = clock::now() + u64::try_from(time.as_nanos())?;
    one.acquire().await?;
    while clock::now() < end {
        clock::exactly(WORK).await?;
        let begun = clock::now();
        one.release().await?;
        one.acquire().await?;
        inside.push(clock::now() - begun);
        let _ = signals.recv().await?;

        clock::exactly(WORK).await?;
        let begun = clock::now();
        let next = async {
            let _ = signals.recv().await.context("a signal")?;
            other.acquire().await?;
            anyhow::Ok(clock::now())
        };
        let ((), granted) = tokio::try_join!(one.release(), next)?;
        between.push(granted - begun);
        other.release().await?;
        let _ = signals.recv().await?;
        one.acquire().await?;
    }
    one.release().await?;
    Ok(Floor { inside: Sorted::new(inside), between: Sorted::new(between) })
}

pub(crate) async fn client(url: &str) -> Result<Client> {
    let client = Client::new(Config::from_url(url)?, None, Some(connection()), None);
    client.init().await?;
    Ok(client)
}

fn connection() -> ConnectionConfig {
    let tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
    ConnectionConfig { tcp, ..ConnectionConfig::default() }
}
