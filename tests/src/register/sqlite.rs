//! A row for each register, in a file beside that of the locks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rusqlite::{Connection, OptionalExtension as _, Params};

use super::State;

#[derive(Clone)]
pub(super) struct Sqlite(Arc<Mutex<Connection>>);

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS registers (name TEXT PRIMARY KEY,
    value INTEGER NOT NULL DEFAULT 0, writes INTEGER NOT NULL DEFAULT 0, fence INTEGER NOT NULL)";

const CLAIM: &str = "INSERT INTO registers (name, fence) VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence WHERE registers.fence <= excluded.fence
    RETURNING value, writes, fence";
const WRITE: &str = "UPDATE registers SET value = ?3, writes = writes + 1, fence = ?2
    WHERE name = ?1 AND fence <= ?2 RETURNING value, writes, fence";
const STATE: &str = "SELECT value, writes, fence FROM registers WHERE name = ?1";

impl Sqlite {
    pub(super) fn open(url: &str) -> Result<Self> {
        let path = url.strip_prefix("sqlite:").context("sqlite:FILE")?;
        let connection = Connection::open(format!("{path}-registers"))?;
        connection.busy_timeout(Duration::from_secs(9))?;
        connection.query_row("PRAGMA journal_mode = WAL", (), |_| Ok(()))?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    pub(super) async fn claim(&self, register: &str, fence: u64) -> Result<Option<u64>> {
        let parameters = (register.to_owned(), i64::try_from(fence)?);
        Ok(self.query(CLAIM, parameters).await?.map(|state| state.value))
    }

    pub(super) async fn write(&self, register: &str, fence: u64, value: u64) -> Result<bool> {
        let parameters = (register.to_owned(), i64::try_from(fence)?, i64::try_from(value)?);
        Ok(self.query(WRITE, parameters).await?.is_some())
    }

    pub(super) async fn state(&self, register: &str) -> Result<State> {
        Ok(self.query(STATE, (register.to_owned(),)).await?.unwrap_or_default())
    }

    async fn query(
        &self,
        sql: &'static str,
        parameters: impl Params + Send + 'static,
    ) -> Result<Option<State>> {
        let connection = Arc::clone(&self.0);
        let query = move || {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let row = connection
                .query_row(sql, parameters, |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
                })
                .optional()?;
            row.map(|(value, writes, fence)| {
                let number = u64::try_from;
                Ok(State { value: number(value)?, writes: number(writes)?, fence: number(fence)? })
            })
            .transpose()
        };
        tokio::task::spawn_blocking(query).await?
    }
}
