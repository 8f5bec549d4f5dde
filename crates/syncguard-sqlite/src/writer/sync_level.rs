//! Chooses whether a transaction waits for the disk (`PRAGMA synchronous`).
//!
//! A fence that was handed out must survive a power cut, so a transaction that grants a lock waits for the
//! disk. A power cut ends the boot, and with it all locks that were taken in this boot. So if the boot is
//! known, a release or an extend does not wait for the disk: an unsynced write survives everything but the
//! end of the boot. (The exception is a disk that goes away and comes back while the machine stays on; the
//! guide says so.) The next transaction that waits for the disk also syncs the writes before it.

use std::cell::Cell;

use rusqlite::Connection;

use crate::config::Synchronous;

/// The `synchronous` level of a connection.
pub(super) struct SyncLevel {
    configured: Synchronous,
    current: Cell<Synchronous>,
    boot_is_known: bool,
}

impl SyncLevel {
    /// For a connection that has the configured level now.
    pub(super) fn new(configured: Synchronous, boot_is_known: bool) -> Self {
        Self { configured, current: Cell::new(configured), boot_is_known }
    }

    /// Sets the level for the next transaction. `matters_after_reboot` is true if any of its changes must
    /// survive a restart of the machine.
    pub(super) fn set(
        &self,
        connection: &Connection,
        matters_after_reboot: bool,
    ) -> Result<(), rusqlite::Error> {
        let must_last = matters_after_reboot || !self.boot_is_known;
        let level = if must_last { self.configured } else { Synchronous::Normal };
        if self.current.get() != level {
            connection.pragma_update(None, "synchronous", level.as_sql())?;
            self.current.set(level);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns SQLite's level after transactions that matter after a reboot, do not matter, and matter again.
    fn levels(configured: Synchronous, boot_is_known: bool) -> [i64; 3] {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "synchronous", configured.as_sql()).unwrap();
        let level = SyncLevel::new(configured, boot_is_known);
        [true, false, true].map(|matters_after_reboot| {
            level.set(&connection, matters_after_reboot).unwrap();
            connection.query_row("PRAGMA synchronous", (), |row| row.get(0)).unwrap()
        })
    }

    #[test]
    fn only_what_a_restart_ends_anyway_does_not_wait() {
        const NORMAL: i64 = 1;
        const FULL: i64 = 2;
        assert_eq!(levels(Synchronous::Full, true), [FULL, NORMAL, FULL]);
        assert_eq!(levels(Synchronous::Full, false), [FULL; 3]);
        assert_eq!(levels(Synchronous::Normal, true), [NORMAL; 3]);
    }
}
