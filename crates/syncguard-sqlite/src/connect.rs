//! Opening the lock file.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use syncguard_core::LockError;

use crate::clock::{Clock, uptime};
use crate::config::Synchronous;
use crate::durability::DurabilityReport;
use crate::error::{Failure, is_cannot_open};
use crate::file::LockFile;
use crate::fork;
use crate::open_files::OpenFiles;
use crate::schema::{self, MIGRATIONS};
use crate::settings::Settings;
use crate::shortage;
use crate::store::Store;

/// An open lock file.
#[derive(Debug)]
pub(crate) struct OpenStore {
    pub(crate) connection: Connection,
    pub(crate) files: OpenFiles,
    pub(crate) clock: Clock,
    pub(crate) durability: DurabilityReport,
    pub(crate) synchronous: Synchronous,
}

/// Opens the file. While other processes keep it locked, waits until the deadline and sets `is_blocked`.
/// Blocks the thread.
///
/// # Errors
///
/// As [`SqliteBackend::open_with`](crate::SqliteBackend::open_with).
pub(crate) fn open(
    path: &Path,
    settings: &Settings,
    deadline: Duration,
    is_blocked: &AtomicBool,
) -> Result<OpenStore, LockError> {
    const PAUSE: Duration = Duration::from_millis(2);
    loop {
        match try_open(path, settings) {
            Err(failure) if failure.is_busy() && uptime() + PAUSE < deadline => {
                is_blocked.store(true, Ordering::Release);
                thread::sleep(syncguard_core::Jitter::Equal.of(PAUSE));
            }
            result => {
                is_blocked.store(false, Ordering::Release);
                return result.map_err(Failure::into_error);
            }
        }
    }
}

fn try_open(path: &Path, settings: &Settings) -> Result<OpenStore, Failure> {
    check_sqlite(rusqlite::version_number())?;
    fork::opens()?;
    let clock = Clock::of_this_machine()?;
    let file = LockFile::find_or_create(path)?;
    let durability = DurabilityReport::of(&file, settings.synchronous);
    durability.enforce(settings.strict)?;
    open_in(&file, settings, clock, durability).map_err(|failure| match failure {
        Failure::Sqlite(error) if is_cannot_open(&error) => {
            shortage::explain(&error, &file.path).map_or(error.into(), Failure::Refused)
        }
        failure => failure,
    })
}

/// SQLite is built in, but a build can link the system's SQLite instead.
fn check_sqlite(version: i32) -> Result<(), LockError> {
    /// Before 3.51.3, writes of one process could get lost while another process restarted its log:
    /// <https://sqlite.org/wal.html#walresetbug>.
    const FIRST_GOOD: i32 = 3_051_003;
    if version >= FIRST_GOOD {
        return Ok(());
    }
    Err(LockError::invalid_argument(
        "this program is linked with a SQLite before 3.51.3, which can damage a file that several processes use; build it with rusqlite's feature `bundled`",
    ))
}

fn open_in(
    file: &LockFile,
    settings: &Settings,
    clock: Clock,
    durability: DurabilityReport,
) -> Result<OpenStore, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(&file.path, flags)?;
    // The writer thread waits itself, because it serves other operations meanwhile.
    connection.busy_timeout(Duration::ZERO)?;
    schema::check(&connection, MIGRATIONS)?;
    set_up(&connection, settings.synchronous)?;
    schema::migrate(&mut connection, MIGRATIONS)?;
    // A read makes SQLite open the files beside the database.
    schema::check(&connection, MIGRATIONS)?;
    let files = OpenFiles::of(file)?;
    let synchronous = settings.synchronous;
    Ok(OpenStore { connection, files, clock, durability, synchronous })
}

fn set_up(connection: &Connection, synchronous: Synchronous) -> Result<(), Failure> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", (), |row| row.get(0))?;
    if mode != "wal" {
        return Err(LockError::invalid_argument(
            "SQLite cannot keep a write-ahead log beside the lock file; the file system does not support it",
        )
        .into());
    }
    connection.pragma_update(None, "synchronous", synchronous.as_sql())?;
    // On Apple's systems, a sync reaches the disk itself only with these.
    connection.pragma_update(None, "fullfsync", synchronous == Synchronous::Full)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_prepared_statement_cache_capacity(Store::STATEMENTS + 4);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_sqlite_is_refused() {
        assert!(check_sqlite(rusqlite::version_number()).is_ok());
        assert!(check_sqlite(3_051_002).unwrap_err().message().contains("3.51.3"));
    }

    #[test]
    fn what_was_handed_out_is_on_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        for (synchronous, level) in [(Synchronous::Full, 2), (Synchronous::Normal, 1)] {
            let options = crate::SqliteOptions::new().with_synchronous(synchronous);
            let settings = Settings::new(options).unwrap();
            let deadline = uptime() + Duration::from_secs(5);
            let path = folder.path().join("locks.db");
            let store = open(&path, &settings, deadline, &AtomicBool::new(false)).unwrap();
            let set = |name: &str| {
                let sql = format!("PRAGMA {name}");
                store.connection.query_row(&sql, (), |row| row.get::<_, i64>(0)).unwrap()
            };
            assert_eq!(set("synchronous"), level);
            assert_eq!(set("fullfsync"), i64::from(synchronous == Synchronous::Full));
            assert_eq!(set("busy_timeout"), 0);
            assert_eq!(set("application_id"), i64::from(schema::APPLICATION_ID));
        }
    }
}
