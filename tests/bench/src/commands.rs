//! The number of commands that a server got.

use anyhow::{Context as _, Result};
use fred::interfaces::ClientLike as _;
use fred::types::{ClusterHash, CustomCommand};
use syncguard_postgres::tokio_postgres;

use crate::clients;

/// The counter of commands.
pub enum Counter {
    /// Nothing counts.
    None,
    Redis(fred::clients::Client),
    Postgres(tokio_postgres::Client),
}

/// The server counts commands of scripts as well. These commands are called by scripts only, and by the counter.
const UNCOUNTED: &str = "info time get set del incr decr exists pttl pexpire strlen getrange publish spublish pubsub|numsub";

const STATEMENTS: &str = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
    WHERE toplevel AND query NOT LIKE '%pg_stat_statements%'";

impl Counter {
    pub async fn redis(url: &str) -> Result<Self> {
        Ok(Self::Redis(clients::redis(url).await?))
    }

    /// For a server that has loaded `pg_stat_statements`.
    pub async fn postgres(port: u16) -> Result<Self> {
        let client = clients::postgres(port).await?;
        client.batch_execute("CREATE EXTENSION pg_stat_statements").await?;
        Ok(Self::Postgres(client))
    }

    /// The commands so far, without those of the counter.
    pub async fn read(&self) -> Result<u64> {
        match self {
            Self::None => Ok(0),
            Self::Redis(client) => {
                let command = CustomCommand::new_static("INFO", ClusterHash::FirstKey, false);
                let stats: String = client.custom(command, vec!["commandstats"]).await?;
                let mut sum = 0;
                for line in stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
                    let (name, figures) = line.split_once(':').context("no figures")?;
                    let calls = figures.split(',').find_map(|it| it.strip_prefix("calls="));
                    if !UNCOUNTED.split(' ').any(|uncounted| uncounted == name) {
                        sum += calls.context("no count")?.parse::<u64>()?;
                    }
                }
                Ok(sum)
            }
            Self::Postgres(client) => {
                let sum: i64 = client.query_one(STATEMENTS, &[]).await?.get(0);
                Ok(u64::try_from(sum)?)
            }
        }
    }
}
