//! The schema of the file and its versions.

use rusqlite::{Connection, TransactionBehavior};
use syncguard_core::LockError;

use crate::error::Failure;

/// Marks a file as ours: `SyGd` in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x5379_4764;

/// The steps from each version to the next one. A file that was just created has version 0.
pub(crate) const MIGRATIONS: &[&str] = &[include_str!("sql/schema.sql")];

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// The file is empty.
    Empty,
    /// The file has our schema, in this version.
    Ours { version: usize },
}

/// Refuses a file that is not ours, without changing it.
///
/// # Errors
///
/// `InvalidArgument` for the file of another program, and for one of a later version of this library.
pub(crate) fn check(connection: &Connection, migrations: &[&str]) -> Result<(), Failure> {
    find(connection, migrations).map(drop)
}

/// Creates the tables, or migrates them to this version, in one transaction.
///
/// # Errors
///
/// As [`check`].
pub(crate) fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), Failure> {
    if find(connection, migrations)? == (Found::Ours { version: migrations.len() }) {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    let version = match find(&transaction, migrations)? {
        Found::Empty => 0,
        Found::Ours { version } => version,
    };
    for migration in &migrations[version..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(
        None,
        "user_version",
        i64::try_from(migrations.len()).unwrap_or(i64::MAX),
    )?;
    transaction.commit()?;
    // The tables get their place on the disk now, so that a disk that is full later cannot keep the log from being
    // emptied. If this fails, a later checkpoint does it.
    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(()));
    Ok(())
}

fn find(connection: &Connection, migrations: &[&str]) -> Result<Found, Failure> {
    let (application, version, tables) = connection
        .query_row(include_str!("sql/inspect.sql"), (), |row| {
            Ok((row.get::<_, i32>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })
        .map_err(not_a_database)?;
    match (application, version, tables) {
        (APPLICATION_ID, version, _) => match usize::try_from(version) {
            Ok(version) if version <= migrations.len() => Ok(Found::Ours { version }),
            _ => Err(LockError::invalid_argument(
                "the lock file was made by a later version of this library; use that version for all that share the file",
            )
            .into()),
        },
        (0, 0, 0) => Ok(Found::Empty),
        _ => Err(not_ours().into()),
    }
}

fn not_a_database(error: rusqlite::Error) -> Failure {
    let code = error.sqlite_error_code();
    if code == Some(rusqlite::ErrorCode::NotADatabase) { not_ours().into() } else { error.into() }
}

fn not_ours() -> LockError {
    LockError::invalid_argument(
        "the file is not a lock file of this library; nothing in it was changed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(connection: &Connection) -> i64 {
        connection.query_row("PRAGMA user_version", (), |row| row.get(0)).unwrap()
    }

    /// Migrations as later versions of this library may have them.
    const LATER: &[&str] = &[
        MIGRATIONS[0],
        "ALTER TABLE locks ADD COLUMN note TEXT",
        "CREATE TABLE more (a ANY) STRICT",
    ];

    #[test]
    fn an_older_file_is_brought_up_step_by_step() {
        for first in 1..=LATER.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            migrate(&mut connection, &LATER[..first]).unwrap();
            connection.execute("INSERT INTO fences VALUES ('key', 7)", ()).unwrap();
            migrate(&mut connection, LATER).unwrap();
            migrate(&mut connection, LATER).unwrap();
            assert_eq!(version(&connection), 3);
            let fence = "SELECT fence FROM fences WHERE key = 'key'";
            assert_eq!(connection.query_row(fence, (), |row| row.get::<_, i64>(0)).unwrap(), 7);
            connection.execute("INSERT INTO more VALUES (1)", ()).unwrap();
        }
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        let broken = [MIGRATIONS[0], "CREATE TABLE more (a ANY) STRICT", "no SQL"];
        assert!(matches!(migrate(&mut connection, &broken), Err(Failure::Sqlite(_))));
        assert_eq!(version(&connection), 1);
        migrate(&mut connection, MIGRATIONS).unwrap();
    }

    #[test]
    fn what_is_later_or_not_ours_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, LATER).unwrap();
        let refused = check(&connection, MIGRATIONS).unwrap_err().into_error();
        assert!(refused.message().contains("later version"));
        connection.pragma_update(None, "user_version", -1).unwrap();
        assert!(check(&connection, LATER).is_err());
        connection.pragma_update(None, "application_id", 7).unwrap();
        let refused = check(&connection, LATER).unwrap_err().into_error();
        assert!(refused.message().contains("not a lock file"));
    }
}
