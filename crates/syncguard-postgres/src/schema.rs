//! Creates the tables.

use std::time::Duration;

use deadpool_postgres::Pool;
use syncguard_core::authoring::cancel;
use syncguard_core::{ErrorCode, LockError};
use tokio::time::{Instant, timeout};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::config::PostgresOptions;
use crate::durability::DurabilityRisk;
use crate::error::{self, Phase, classify};
use crate::pool::StatementPool;
use crate::record::column;
use crate::settings::Settings;
use crate::statements::render;

/// Creates missing tables and indexes.
///
/// Idempotent, and safe if many processes run it at once. Tables of the TypeScript library are kept, and get the
/// column for [holders](syncguard_core::contract::Holder). If nothing is missing, nothing is changed, and the role
/// needs no privilege but the use of the tables: for a role that may only use them, the call is a check. For the
/// owner of the tables, the call also sets their autovacuum settings, unless they have some.
///
/// To create the tables in your own migrations, see [`schema_sql`].
///
/// # Errors
///
/// - `AuthFailed` if something is missing and the role may not create it, or if the role may not use the tables.
/// - `InvalidArgument` if another kind of table has this name, if the schema does not exist, or if others could change
///   or hide the rows of the tables: see [`DurabilityRisk`].
/// - The store's failures.
///
/// # Cancel safety
///
/// A started call goes on in the background. It creates everything or nothing.
pub async fn setup_schema(pool: &Pool, options: &PostgresOptions) -> Result<(), LockError> {
    set_up(pool, Settings::new(options.clone())?).await
}

/// Runs [`setup_schema`] with checked settings.
pub(crate) async fn set_up(pool: &Pool, settings: Settings) -> Result<(), LockError> {
    let pool = pool.clone();
    cancel::finish(None, async move { run(pool, &settings).await }).await
}

/// Returns the statements that [`setup_schema`] runs, for your own migrations.
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
        // Comments stay, for the readers of the migration.
        let line = if line.starts_with("--") { line.to_owned() } else { fill(line, settings) };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The advisory lock that only [`setup_schema`] takes.
const SETUP_LOCK: i64 = 0x5379_6e63_4775_6172;

/// Long enough for everything but a new index on a huge table.
const SETUP_TIMEOUT: Duration = Duration::from_secs(60);

async fn run(pool: Pool, settings: &Settings) -> Result<(), LockError> {
    let pool = StatementPool::new(pool, settings);
    let connection = pool.connection(Instant::now() + settings.pool_wait, None).await?;
    let done = timeout(SETUP_TIMEOUT, make(connection.client()?, settings)).await;
    match done {
        Ok(Ok(())) => connection.give_back(),
        Ok(Err(_)) => connection.close(),
        Err(_) => drop(connection),
    }
    done.map_err(|_| error::statement_timed_out(Phase::Before))?
}

async fn make(client: &Client, settings: &Settings) -> Result<(), LockError> {
    /// The TypeScript library creates its tables without a lock, so a race is still possible.
    const ATTEMPTS: u32 = 6;
    // One message is one transaction, rolled back as a whole if a statement fails.
    let patience = render(include_str!("sql/setup.sql"), settings);
    let work = format!(
        "{patience}; SELECT pg_catalog.pg_advisory_xact_lock({SETUP_LOCK}); {}",
        ddl(settings)
    );
    for _ in 0..ATTEMPTS {
        if !needs_work(client, settings).await? {
            return Ok(());
        }
        match client.batch_execute(&work).await {
            Err(error) if !is_race(&error) => return Err(classify(&error, Phase::Before).error),
            _ => {}
        }
    }
    Err(LockError::invalid_argument(
        "the tables cannot be completed; is there an index of the same name on something else?",
    ))
}

/// Returns true if something is missing, and an error if the tables cannot be completed or used.
async fn needs_work(client: &Client, settings: &Settings) -> Result<bool, LockError> {
    let tables = &settings.tables;
    let (locks, fences) = (tables.locks.quoted(), tables.fences.quoted());
    let sql = render(include_str!("sql/inspect.sql"), settings);
    let rows = client
        .query_typed(&sql, &[(&locks, Type::TEXT), (&fences, Type::TEXT)])
        .await
        .map_err(|error| classify(&error, Phase::Before).error)?;
    match rows.first().map(|row| column(row, "state")).transpose()? {
        Some("ready") => Ok(false),
        Some("incomplete" | "untuned") => Ok(true),
        Some("other") => Err(LockError::invalid_argument(
            "a table of this name exists and is not ours; choose other names with with_tables",
        )),
        Some("keyless") => Err(LockError::invalid_argument(
            "a table exists and lacks its primary key; add it, or choose other names",
        )),
        Some("forbidden") => Err(LockError::new(
            ErrorCode::AuthFailed,
            "the database role lacks SELECT, INSERT, UPDATE or DELETE on the lock table, or \
             SELECT, INSERT or UPDATE on the fence table",
        )),
        word => Err(word.and_then(DurabilityRisk::of_word).map_or_else(
            || LockError::internal("PostgreSQL did not say which tables there are"),
            |risk| {
                LockError::invalid_argument(format!("the tables are not safe for locks: {risk}"))
            },
        )),
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
