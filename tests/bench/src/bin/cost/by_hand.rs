//! The locks that users write by hand, without a fence.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::tokio_postgres::{self, NoTls};

use crate::rows::{Figures, What};
use crate::server::Kind;
use crate::{Size, callgrind};

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS by_hand (key text PRIMARY KEY, owner text, expires timestamptz)";
const TAKE: &str =
    "INSERT INTO by_hand AS held VALUES ($1, $2, now() + interval '30 s') ON CONFLICT (key)
    DO UPDATE SET owner = excluded.owner, expires = excluded.expires WHERE held.expires < now()";
const GIVE_BACK: &str = "DELETE FROM by_hand WHERE key = $1 AND owner = $2";

/// The instructions of the server for a cycle.
pub(crate) async fn measure(kind: Kind, size: Size, figures: &mut Figures) -> Result<()> {
    if !callgrind::is_installed() {
        return Ok(());
    }
    let now = figures.now();
    if kind == Kind::Redis {
        let it = callgrind::of_one(kind, size.cycles, rslock).await?;
        return figures.add(now, kind.name(), What::ByHand, it);
    }
    figures.add(
        now,
        kind.name(),
        What::ByHand,
        callgrind::of_one(kind, size.cycles, rows).await?,
    )?;
    let it = callgrind::of_one(kind, size.cycles, advisory).await?;
    figures.add(now, kind.name(), What::Advisory, it)
}

async fn rslock(url: &str, count: usize) -> Result<()> {
    let (url, _) = url.split_once('?').context("options")?;
    let locks = rslock::LockManager::new(vec![url.to_owned()]);
    for _ in 0..count {
        let lock = locks.lock(b"cost:000000000000", Duration::from_secs(30)).await?;
        locks.unlock(&lock).await;
    }
    Ok(())
}

async fn session(url: &str) -> Result<tokio_postgres::Client> {
    let (url, _) = url.split_once('?').context("options")?;
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn rows(url: &str, count: usize) -> Result<()> {
    let client = session(url).await?;
    client.batch_execute(TABLE).await?;
    let (take, give_back) = (client.prepare(TAKE).await?, client.prepare(GIVE_BACK).await?);
    for _ in 0..count {
        for statement in [&take, &give_back] {
            ensure!(client.execute(statement, &[&"cost:000000000000", &"owner"]).await? == 1);
        }
    }
    Ok(())
}

async fn advisory(url: &str, count: usize) -> Result<()> {
    let client = session(url).await?;
    let take = client.prepare("SELECT pg_try_advisory_lock($1)").await?;
    let give_back = client.prepare("SELECT pg_advisory_unlock($1)").await?;
    for _ in 0..count {
        for statement in [&take, &give_back] {
            ensure!(client.query_one(statement, &[&7_i64]).await?.get::<_, bool>(0));
        }
    }
    Ok(())
}
