//! A file instead of a server.

use std::time::Duration;

use anyhow::Result;
use rusqlite::Connection;
use tempfile::TempDir;

/// A lock file in a folder of its own.
pub(crate) struct SqliteFile {
    folder: TempDir,
    writer: Option<Connection>,
}

impl SqliteFile {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, writer: None })
    }

    fn path(&self) -> String {
        self.folder.path().join("locks.db").display().to_string()
    }

    pub(super) fn url(&self) -> String {
        format!("sqlite:{}", self.path())
    }

    /// Begins a write, so that nobody else can write.
    pub(super) fn pause(&mut self) -> Result<()> {
        let writer = Connection::open(self.path())?;
        // The members write all the time, and SQLite grants the write lock at random.
        writer.busy_timeout(Duration::from_secs(120))?;
        writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO fences VALUES ('half done', 7)")?;
        self.writer = Some(writer);
        Ok(())
    }

    /// Closes the connection in the middle of its write, which is lost.
    pub(super) fn resume(&mut self) {
        self.writer = None;
    }
}
