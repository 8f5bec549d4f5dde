//! Files that are damaged, foreign, or of another boot.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use rusqlite::Connection;
use syncguard_sqlite::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard_sqlite::{ErrorCode, LockBackend as _, SqliteBackend, SqliteOptions, Synchronous};

use crate::sqlite::support::{File, HOUR, MINUTE, take};

/// Each page is replaced by zeros, ones or noise, and the file is cut off at each page: the answer is an error or the
/// truth, and a held lock is never granted.
#[tokio::test]
async fn a_damaged_page_grants_nothing_twice() -> Result<()> {
    const PAGE: usize = 4096;
    const KEYS: u64 = 150;
    let name = |number: u64| format!("{number:0>100}");
    let options = || SqliteOptions::new().with_synchronous(Synchronous::Normal);
    let original = File::new();
    let backend = original.open_with(options()).await;
    for number in 0..KEYS {
        let lock = take(&backend, &name(number)).await;
        if number % 3 == 0 {
            ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        }
    }
    drop(backend);
    original.until_closed()?;
    let whole = fs::read(original.path())?;
    let pages = whole.len() / PAGE;
    ensure!(pages > 10, "{pages} pages");
    let (mut refused, mut failed, mut answered) = (0, 0, 0);
    for (page, damage) in (0..pages).flat_map(|page| (0..4).map(move |damage| (page, damage))) {
        let mut bytes = whole.clone();
        let noise = |index: usize| (index * 131 + page * 17 + 5).to_le_bytes()[0];
        let place = &mut bytes[page * PAGE..(page + 1) * PAGE];
        match damage {
            0 => place.fill(0),
            1 => place.fill(0xff),
            2 => place.iter_mut().enumerate().for_each(|(index, byte)| *byte = noise(index)),
            // An empty file looks like a new one.
            _ => bytes.truncate((page * PAGE).max(1)),
        }
        let file = File::new();
        fs::write(file.path(), bytes)?;
        let backend = match SqliteBackend::open_with(file.path(), options()).await {
            Ok(backend) => backend,
            Err(error) => {
                let codes = [ErrorCode::Internal, ErrorCode::InvalidArgument];
                ensure!(codes.contains(&error.code()), "{error}");
                refused += 1;
                continue;
            }
        };
        for number in 0..KEYS {
            let (held, at) = (number % 3 != 0, format!("page {page}, damage {damage}"));
            match backend.acquire(AcquireRequest::new(name(number), HOUR)?).await {
                Ok(AcquireResult::Acquired(lock)) => {
                    ensure!(!held, "{at}: granted twice");
                    ensure!(lock.fence.get() == 2, "{at}: {:?} again", lock.fence);
                    answered += 1;
                }
                Ok(_) => {
                    ensure!(held, "{at}: a free key is locked");
                    answered += 1;
                }
                Err(error) => {
                    ensure!(error.code() == ErrorCode::Internal, "{error}");
                    ensure!(error.message().contains("damaged"), "{error}");
                    failed += 1;
                }
            }
        }
    }
    ensure!(refused > 4 && failed > 100 && answered > 100, "{refused}, {failed}, {answered}");
    Ok(())
}

async fn refused(path: &Path) -> Result<String> {
    let error = SqliteBackend::open(path).await.expect_err("a file that is not ours");
    ensure!(error.code() == ErrorCode::InvalidArgument, "{error}");
    Ok(error.message().to_owned())
}

#[tokio::test]
async fn the_file_of_another_program_is_refused_and_stays_as_it_is() -> Result<()> {
    for sql in [
        "CREATE TABLE users (name TEXT)",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 3",
        "CREATE TABLE locks (key TEXT); PRAGMA user_version = 1",
    ] {
        let file = File::new();
        let connection = Connection::open(file.path())?;
        connection.execute_batch(sql)?;
        // A setting alone is written only with other data.
        connection.execute_batch("CREATE TABLE IF NOT EXISTS t (a); DROP TABLE t")?;
        drop(connection);
        let before = fs::read(file.path())?;
        ensure!(refused(&file.path()).await?.contains("nothing in it was changed"), "{sql}");
        ensure!(fs::read(file.path())? == before, "{sql}");
        ensure!(fs::read_dir(file.folder())?.count() == 1, "{sql}");
    }
    let file = File::new();
    fs::write(
        file.path(),
        "just a text, and longer than the header of a database would be, that is 100 bytes; so it goes on for a while",
    )?;
    ensure!(refused(&file.path()).await?.contains("not a lock file"));
    Ok(())
}

#[tokio::test]
async fn a_later_version_is_refused() -> Result<()> {
    let file = File::new();
    drop(file.open().await);
    file.until_closed()?;
    let connection = file.raw();
    let version: i64 = connection.query_row("PRAGMA user_version", (), |row| row.get(0))?;
    connection.pragma_update(None, "user_version", version + 1)?;
    drop(connection);
    ensure!(refused(&file.path()).await?.contains("later version"));
    file.raw().pragma_update(None, "user_version", version)?;
    let _ = take(&file.open().await, "key").await;
    Ok(())
}

/// An existing empty file keeps its mode; the two files beside it get the same.
#[tokio::test]
async fn an_empty_file_is_taken_as_it_is() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for mode in [0o600, 0o660] {
        let file = File::new();
        fs::write(file.path(), "")?;
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode))?;
        let backend = file.open().await;
        let _ = take(&backend, "key").await;
        for name in ["locks.db", "locks.db-wal", "locks.db-shm"] {
            let found = fs::metadata(file.folder().join(name))?.permissions().mode() & 0o777;
            ensure!(found == mode, "{name}: {found:o}");
        }
    }
    Ok(())
}

/// Locks from before a restart are over, and their fences are kept.
#[tokio::test]
async fn a_restart_of_the_machine_ends_locks_and_keeps_fences() -> Result<()> {
    let file = File::new();
    let backend = file.open().await;
    let lock = take(&backend, "key").await;
    // As another boot, which began before this one, would have written it.
    let sql =
        "UPDATE locks SET boot = 'an earlier one', offset_ms = offset_ms - 86400000 - acquired_ms";
    file.raw().execute(sql, ())?;
    let released = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
    ensure!(!released.is_released(), "a lock of before the restart was released");
    let next = take(&backend, "key").await;
    ensure!(next.fence.get() == lock.fence.get() + 1);
    Ok(())
}

/// Containers with their own boot ids share a file: they use the wall clock, and exclude each other.
#[tokio::test]
async fn another_boot_id_at_the_same_time_excludes() -> Result<()> {
    let file = File::new();
    let backend = file.open().await;
    let lock = take(&backend, "key").await;
    file.raw().execute("UPDATE locks SET boot = 'of another container'", ())?;
    let answer = backend.acquire(AcquireRequest::new("key", MINUTE)?).await?;
    ensure!(answer.is_busy());
    ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}
