//! The number of commands that a server got.

use anyhow::{Context as _, Result};
use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::types::{ClusterHash, CustomCommand};
use syncguard_postgres::tokio_postgres as postgres;

use crate::floor;

/// The counter of commands.
pub(crate) enum Counter {
    /// There is no server.
    None,
    Redis(Client),
    /// With the query that counts.
    Postgres(postgres::Client, &'static str),
}

impl Counter {
    pub(crate) async fn redis(url: &str) -> Result<Self> {
        Ok(Self::Redis(floor::redis::client(url).await?))
    }

    pub(crate) async fn postgres(port: u16) -> Result<Self> {
        let client = floor::postgres::connect(port).await?;
        let extension = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements";
        let counts_statements = client.batch_execute(extension).await.is_ok()
            && number(&client, STATEMENTS).await.is_ok();
        Ok(Self::Postgres(client, if counts_statements { STATEMENTS } else { TRANSACTIONS }))
    }

    /// The connections of all clients.
    pub(crate) async fn connections(&self) -> Result<u64> {
        match self {
            Self::None => Ok(0),
            Self::Redis(client) => {
                let clients = info(client, "clients").await?;
                let count =
                    clients.lines().find_map(|line| line.strip_prefix("connected_clients:"));
                Ok(count.context("no count")?.trim().parse()?)
            }
            Self::Postgres(client, _) => number(client, CONNECTIONS).await,
        }
    }

    /// The commands so far, without those of the counter.
    pub(crate) async fn read(&self) -> Result<u64> {
        match self {
            Self::None => Ok(0),
            Self::Redis(client) => redis(client).await,
            Self::Postgres(client, query) => number(client, query).await,
        }
    }
}

/// The server counts commands of scripts as well. These commands are called by scripts only.
const INSIDE: [&str; 14] = [
    "time",
    "get",
    "set",
    "del",
    "incr",
    "decr",
    "exists",
    "pttl",
    "pexpire",
    "strlen",
    "getrange",
    "publish",
    "spublish",
    "pubsub|numsub",
];

const STATEMENTS: &str = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
    WHERE toplevel AND query NOT LIKE '%pg_stat_statements%'";
/// Used if the extension is not installed. The counter's own query counts as one.
const TRANSACTIONS: &str = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'";
const CONNECTIONS: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";

async fn number(client: &postgres::Client, query: &str) -> Result<u64> {
    Ok(u64::try_from(client.query_one(query, &[]).await?.get::<_, i64>(0))?)
}

async fn info(client: &Client, section: &'static str) -> Result<String> {
    let command = CustomCommand::new_static("INFO", ClusterHash::FirstKey, false);
    Ok(client.custom(command, vec![section]).await?)
}

async fn redis(client: &Client) -> Result<u64> {
    let stats = info(client, "commandstats").await?;
    let mut sum = 0;
    for line in stats.lines() {
        let Some((name, figures)) =
            line.strip_prefix("cmdstat_").and_then(|line| line.split_once(':'))
        else {
            continue;
        };
        let calls = figures.split(',').find_map(|figure| figure.strip_prefix("calls="));
        if name != "info" && !INSIDE.contains(&name) {
            sum += calls.context("no count")?.parse::<u64>()?;
        }
    }
    Ok(sum)
}
