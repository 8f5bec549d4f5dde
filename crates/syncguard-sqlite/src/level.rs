//! When the disk is waited for.
//!
//! A fence that was handed out must be there after a power cut, so what grants a lock waits for the disk. A
//! power cut ends the boot, and with it all locks that were taken in it. So nobody waits for the disk to
//! give a lock back or to extend it, where the boot is known: that it is written is enough for everything
//! that happens before the next boot. (A disk that goes away and comes back while the machine stays on is the
//! exception: the guide says so.) The next write that waits for the disk takes along what did not.

use std::cell::Cell;

use rusqlite::Connection;

use crate::config::Synchronous;

/// The level of a connection.
pub(crate) struct Level {
    asked_for: Synchronous,
    now: Cell<Synchronous>,
    boot_is_known: bool,
}

impl Level {
    /// Of a connection that has the level that was asked for.
    pub(crate) fn new(asked_for: Synchronous, boot_is_known: bool) -> Self {
        Self { asked_for, now: Cell::new(asked_for), boot_is_known }
    }

    /// Sets the level for the next transaction. `outlives_boot`: something in it counts after a restart of the
    /// machine.
    pub(crate) fn set(
        &self,
        connection: &Connection,
        outlives_boot: bool,
    ) -> Result<(), rusqlite::Error> {
        let is_lasting = outlives_boot || !self.boot_is_known;
        let level = if is_lasting { self.asked_for } else { Synchronous::Normal };
        if self.now.get() != level {
            connection.pragma_update(None, "synchronous", level.as_sql())?;
            self.now.set(level);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What SQLite says after transactions that outlive a boot, that do not, and that do again.
    fn levels(asked_for: Synchronous, boot_is_known: bool) -> [i64; 3] {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "synchronous", asked_for.as_sql()).unwrap();
        let level = Level::new(asked_for, boot_is_known);
        [true, false, true].map(|outlives_boot| {
            level.set(&connection, outlives_boot).unwrap();
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
