//! Statements that do what a lock needs, each one round trip, through raw tokio-postgres.

use std::future::poll_fn;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::tokio_postgres::{AsyncMessage, Client, Config, NoTls, Statement};
use syncguard_test_services::postgres::PostgresServer;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Floor, WORK};
use crate::clock;
use crate::figures::Sorted;

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

/// One of two clients that take the lock by turns.
struct Party {
    client: Client,
    acquire: Statement,
    release: Statement,
    release_and_signal: Statement,
}

impl Party {
    async fn new(port: u16) -> Result<Self> {
        let client = connect(port).await?;
        let acquire = client.prepare(ACQUIRE).await?;
        let release = client.prepare(RELEASE).await?;
        let release_and_signal = client.prepare(RELEASE_AND_SIGNAL).await?;
        Ok(Self { client, acquire, release, release_and_signal })
    }

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
    let (one, other) = (Party::new(port).await?, Party::new(port).await?);
    let mut signals = listen(port).await?;
    let (mut inside, mut between) = (Vec::new(), Vec::new());
    let end = clock::now() + u64::try_from(time.as_nanos())?;
    one.acquire().await?;
    while clock::now() < end {
        clock::exactly(WORK).await?;
        let begun = clock::now();
        one.release().await?;
        one.acquire().await?;
        inside.push(clock::now() - begun);

        clock::exactly(WORK).await?;
        let begun = clock::now();
        let next = async {
            signals.recv().await.context("a signal")?;
            other.acquire().await?;
            anyhow::Ok(clock::now())
        };
        let ((), granted) = tokio::try_join!(one.release_and_signal(), next)?;
        between.push(granted - begun);
        other.release().await?;
        one.acquire().await?;
    }
    one.release().await?;
    Ok(Floor { inside: Sorted::new(inside), between: Sorted::new(between) })
}

pub(crate) async fn connect(port: u16) -> Result<Client> {
    let (client, connection) = config(port).connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Waits for the signal of a release.
async fn listen(port: u16) -> Result<UnboundedReceiver<()>> {
    let (client, mut connection) = config(port).connect(NoTls).await?;
    let (sender, signals) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message, AsyncMessage::Notification(_)) && sender.send(()).is_err() {
                break;
            }
        }
    });
    client.batch_execute("LISTEN floor").await?;
    // The session lives as long as its client.
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(client);
    });
    Ok(signals)
}

fn config(port: u16) -> Config {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
    config.password(PostgresServer::PASSWORD);
    config
}
