//! Creates the tables.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::authoring::cancel::{self, Caller};
use syncguard_core::{ErrorCode, LockError};
use tokio::time::{Instant, timeout};

use crate::config::PostgresOptions;
use crate::durability::{DurabilityReport, TableState};
use crate::error::{self, Phase, classify};
use crate::inner::Inner;
use crate::settings::Settings;
use crate::statements::render;

/// Runs [`setup_schema`](crate::setup_schema), and returns what the server says of itself and of the tables.
pub(crate) async fn set_up(inner: Arc<Inner>) -> Result<DurabilityReport, LockError> {
    cancel::finish(None, async move {
        let done = timeout(SETUP_TIMEOUT, make(&inner)).await;
        done.map_err(|_| error::statement_timed_out(Phase::Before))?
    })
    .await
}

/// Returns the statements that [`setup_schema`](crate::setup_schema) runs, for your own migrations.
///
/// Run them by one process at a time: `CREATE TABLE IF NOT EXISTS` fails in a race.
///
/// ```
/// use syncguard_postgres::{PostgresOptions, schema_sql};
///
/// let sql = schema_sql(&PostgresOptions::new())?;
/// assert!(sql.contains(r#"CREATE TABLE IF NOT EXISTS "syncguard_locks""#));
/// # Ok::<(), syncguard_postgres::LockError>(())
/// ```
///
/// # Errors
///
/// `InvalidArgument` for options that are out of range.
pub fn schema_sql(options: &PostgresOptions) -> Result<String, LockError> {
    Settings::new(options.clone()).map(|settings| ddl(&settings))
}

fn ddl(settings: &Settings) -> String {
    let mut text = String::new();
    for line in include_str!("sql/schema.sql").lines() {
        if line.starts_with(ADDED_COLUMN) && !settings.upgrades {
            continue;
        }
        // Comments stay, for the readers of the migration.
        let line = if line.starts_with("--") { line.to_owned() } else { fill(line, settings) };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The line of `schema.sql` for tables that are older than this column.
const ADDED_COLUMN: &str = "ALTER TABLE {locks} ADD COLUMN IF NOT EXISTS holder";

/// The advisory lock that only [`setup_schema`] takes.
const SETUP_LOCK: i64 = 0x5379_6e63_4775_6172;

/// Long enough for everything but a new index on a huge table.
const SETUP_TIMEOUT: Duration = Duration::from_secs(60);

async fn make(inner: &Inner) -> Result<DurabilityReport, LockError> {
    /// The TypeScript library creates its tables without a lock, so a race is still possible.
    const ATTEMPTS: u32 = 6;
    // One message is one transaction, rolled back as a whole if a statement fails.
    let patience = render(include_str!("sql/setup.sql"), &inner.settings);
    for _ in 0..ATTEMPTS {
        let found = inner.inspect(&Caller::new(None)).await?;
        found.report.refuse_others()?;
        if !needs_work(&found.tables)? {
            inner.keeps_holders(!found.lacks_holders);
            return Ok(found.report);
        }
        let superfluous = found.report.superfluous_index.filter(|_| inner.settings.upgrades);
        let dropped = superfluous.map(|index| format!("DROP INDEX {index};")).unwrap_or_default();
        let work = format!(
            "{patience}; SELECT pg_catalog.pg_advisory_xact_lock({SETUP_LOCK}); {} {dropped}",
            ddl(&inner.settings)
        );
        let pool = &inner.pool;
        let connection = pool.connection(Instant::now() + inner.settings.pool_wait, None).await?;
        match connection.client()?.batch_execute(&work).await {
            Ok(()) => connection.give_back(),
            Err(error) => {
                connection.close();
                if !is_race(&error) {
                    return Err(classify(&error, Phase::Before).error);
                }
            }
        }
    }
    Err(LockError::invalid_argument(
        "the tables cannot be completed; is there an index of the same name on something else?",
    ))
}

/// Returns true if something is missing, and an error if the tables cannot be completed or used.
fn needs_work(tables: &TableState) -> Result<bool, LockError> {
    let TableState { word, place, owner, role, locks, fences } = tables;
    let refused = |message| Err(LockError::new(ErrorCode::AuthFailed, message));
    match word.as_str() {
        "ready" => Ok(false),
        "incomplete" | "untuned" => Ok(true),
        "other" => Err(LockError::invalid_argument(
            "a table of this name exists and is not ours; choose other names with with_tables",
        )),
        "keyless" => Err(LockError::invalid_argument(
            "a table exists and lacks its primary key; add it, or choose other names",
        )),
        "closed" => refused(format!(
            "the role {role} may not create tables in the schema {place}: let its owner {owner} run \
             GRANT CREATE ON SCHEMA {place} TO {role}, or run set-up as a role that may"
        )),
        "unowned" => refused(format!(
            "the table {place} lacks a column or an index, and only its owner can add it: run set-up as {owner}"
        )),
        "forbidden" => refused(format!(
            "the role {role} lacks a permission: let the owner of the tables run GRANT SELECT, INSERT, UPDATE, DELETE \
             ON {locks} TO {role}; GRANT SELECT, INSERT, UPDATE ON {fences} TO {role}"
        )),
        _ => Err(LockError::internal("PostgreSQL did not say which tables there are")),
    }
}

/// True if another session created the same object at the same moment.
fn is_race(error: &tokio_postgres::Error) -> bool {
    let sqlstate = error.code().map(tokio_postgres::error::SqlState::code);
    // XX000: "tuple concurrently updated".
    matches!(sqlstate, Some("23505" | "42P07" | "42710" | "42701" | "XX000" | "40P01"))
}

fn fill(line: &str, settings: &Settings) -> String {
    let indent = line.len() - line.trim_start().len();
    format!("{}{}", &line[..indent], render(line, settings))
}
