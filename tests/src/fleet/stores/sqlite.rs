//! A file instead of a server: a process that is stopped during a write stops all others.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rusqlite::{Connection, TransactionBehavior};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

/// A lock file in a folder of its own.
#[derive(Debug)]
pub struct SqliteFile {
    folder: TempDir,
    program: PathBuf,
    writer: Option<Child>,
}

impl SqliteFile {
    pub(super) fn new(program: &Path) -> Result<Self> {
        let (folder, program) = (tempfile::tempdir()?, program.to_owned());
        Ok(Self { folder, program, writer: None })
    }

    fn path(&self) -> String {
        self.folder.path().join("locks.db").display().to_string()
    }

    pub(super) fn url(&self) -> String {
        format!("sqlite:{}", self.path())
    }

    pub(super) fn pause(&mut self) -> Result<()> {
        let mut writer = Command::new(&self.program)
            .args(["keep-out", &self.path()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut said = [0; 3];
        writer.stdout.as_mut().context("a pipe")?.read_exact(&mut said)?;
        let process = Pid::from_raw(writer.id().cast_signed()).context("a process")?;
        kill_process(process, Signal::STOP)?;
        self.writer = Some(writer);
        Ok(())
    }

    /// The process is killed while it is stopped, so its write is lost.
    pub(super) fn resume(&mut self) -> Result<()> {
        if let Some(mut writer) = self.writer.take() {
            writer.kill()?;
            writer.wait()?;
        }
        Ok(())
    }

    pub(super) fn live(&self) -> Result<u64> {
        let now = clock_gettime(ClockId::Boottime);
        let millis = now.tv_sec * 1000 + now.tv_nsec / 1_000_000;
        let sql = "SELECT count(*) FROM locks WHERE expires_ms + 1000 > ?1";
        let count =
            Connection::open(self.path())?.query_row(sql, [millis], |row| row.get::<_, i64>(0));
        Ok(count?.unsigned_abs())
    }
}

impl Drop for SqliteFile {
    fn drop(&mut self) {
        let _ = self.resume();
    }
}

/// Keeps all other processes from writing until its input ends. It prints `in` and `out`.
///
/// # Errors
///
/// If the file cannot be written, or another process keeps it for two minutes.
#[allow(clippy::print_stdout, reason = "its parent reads it")]
pub fn keep_out(file: &Path) -> Result<()> {
    let mut connection = Connection::open(file)?;
    // The members write all the time, and SQLite grants the write lock at random.
    connection.busy_timeout(Duration::from_secs(120))?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("INSERT INTO fences VALUES ('half done', 7)", ())?;
    println!("in");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    transaction.rollback()?;
    println!("out");
    Ok(())
}
