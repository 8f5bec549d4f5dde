//! A row for each register.

use std::sync::Arc;

use anyhow::Result;
use syncguard::postgres::tokio_postgres::types::ToSql;
use syncguard::postgres::tokio_postgres::{Client, Config, NoTls, Row};

use super::State;

#[derive(Clone)]
pub(super) struct Postgres(Arc<Client>);

/// Creates PostgreSQL's registers.
pub const POSTGRES_SCHEMA: &str = "CREATE TABLE registers (name text PRIMARY KEY,
    value bigint NOT NULL DEFAULT 0, writes bigint NOT NULL DEFAULT 0, fence bigint NOT NULL)";

const CLAIM: &str = "INSERT INTO registers AS it (name, fence) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence WHERE it.fence <= excluded.fence
    RETURNING value";
const WRITE: &str = "UPDATE registers SET value = $3, writes = writes + 1, fence = $2
    WHERE name = $1 AND fence <= $2 RETURNING value";
const STATE: &str = "SELECT value, writes, fence FROM registers WHERE name = $1";

impl Postgres {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let mut config: Config = url.parse()?;
        config.application_name("register");
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(Self(Arc::new(client)))
    }

    pub(super) async fn claim(&self, register: &str, fence: u64) -> Result<Option<u64>> {
        let row = self.query(CLAIM, &[&register, &i64::try_from(fence)?]).await?;
        row.map(|row| number(&row, 0)).transpose()
    }

    pub(super) async fn write(&self, register: &str, fence: u64, value: u64) -> Result<bool> {
        let (fence, value) = (i64::try_from(fence)?, i64::try_from(value)?);
        Ok(self.query(WRITE, &[&register, &fence, &value]).await?.is_some())
    }

    pub(super) async fn state(&self, register: &str) -> Result<State> {
        let Some(row) = self.query(STATE, &[&register]).await? else {
            return Ok(State::default());
        };
        Ok(State { value: number(&row, 0)?, writes: number(&row, 1)?, fence: number(&row, 2)? })
    }

    async fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>> {
        Ok(self.0.query_opt(sql, parameters).await?)
    }
}

fn number(row: &Row, column: usize) -> Result<u64> {
    Ok(u64::try_from(row.try_get::<_, i64>(column)?)?)
}
