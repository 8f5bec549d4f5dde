//! Statements that do what a lock needs, each one round trip, through raw tokio-postgres.

use std::future::poll_fn;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_bench::clients::{postgres as connect, postgres_config};
use syncguard_postgres::tokio_postgres::{AsyncMessage, Client, NoTls, Statement};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Floor, Party, Signals};

const TABLES: &str =
    "CREATE TABLE floor_locks (key text PRIMARY KEY, id text UNIQUE, expires bigint, fence bigint);
CREATE TABLE floor_fences (key text PRIMARY KEY, fence bigint);
INSERT INTO floor_fences VALUES ('key', 0)";
const ACQUIRE: &str = "WITH next AS (UPDATE floor_fences SET fence = fence + 1 WHERE key = $1 RETURNING fence)
INSERT INTO floor_locks SELECT $1, $2, floor(extract(epoch FROM now()) * 1000)::bigint + 30000, fence FROM next
ON CONFLICT DO NOTHING RETURNING fence";
const RELEASE: &str = "DELETE FROM floor_locks WHERE id = $1";
const RELEASE_AND_SIGNAL: &str =
    "WITH gone AS (DELETE FROM floor_locks WHERE id = $1 RETURNING key)
SELECT pg_notify('floor', key) FROM gone";

const ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

struct Session {
    client: Client,
    acquire: Statement,
    release: Statement,
    release_and_signal: Statement,
}

impl Session {
    async fn new(port: u16) -> Result<Self> {
        let client = connect(port).await?;
        let acquire = client.prepare(ACQUIRE).await?;
        let release = client.prepare(RELEASE).await?;
        let release_and_signal = client.prepare(RELEASE_AND_SIGNAL).await?;
        Ok(Self { client, acquire, release, release_and_signal })
    }
}

impl Party for Session {
    async fn acquire(&self) -> Result<()> {
        self.client.query_one(&self.acquire, &[&"key", &ID]).await.map(drop).context("a free lock")
    }

    async fn release(&self) -> Result<()> {
        ensure!(self.client.execute(&self.release, &[&ID]).await? == 1);
        Ok(())
    }

    async fn release_and_signal(&self) -> Result<()> {
        self.client.query_one(&self.release_and_signal, &[&ID]).await.map(drop).context("a lock")
    }
}

pub(crate) async fn measure(port: u16, time: Duration) -> Result<Floor> {
    connect(port).await?.batch_execute(TABLES).await?;
    let parties = [Session::new(port).await?, Session::new(port).await?];
    super::measure(parties, Listener::new(port).await?, time).await
}

struct Listener {
    signals: UnboundedReceiver<()>,
    /// The session lives as long as its client.
    _client: Client,
}

impl Listener {
    async fn new(port: u16) -> Result<Self> {
        let (client, mut connection) = postgres_config(port).connect(NoTls).await?;
        let (sender, signals) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if matches!(message, AsyncMessage::Notification(_)) && sender.send(()).is_err() {
                    break;
                }
            }
        });
        client.batch_execute("LISTEN floor").await?;
        Ok(Self { signals, _client: client })
    }
}

impl Signals for Listener {
    const ALWAYS: bool = false;

    async fn next(&mut self) -> Result<()> {
        self.signals.recv().await.context("a signal")
    }
}
