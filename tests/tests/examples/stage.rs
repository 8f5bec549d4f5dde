//! Programs that write to one log, so that the order of its lines is the order of events.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use syncguard_test_services::process::ServerProcess;
use tempfile::TempDir;

/// Far longer than any step takes.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// Some processes and their log.
pub(crate) struct Stage {
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()? })
    }

    /// Starts a program that does not outlive this process.
    pub(crate) fn start(&self, program: &str, arguments: &[&str]) -> Result<ServerProcess> {
        let mut command = Command::new(program);
        command.args(arguments);
        self.start_command(command)
    }

    pub(crate) fn start_command(&self, command: Command) -> Result<ServerProcess> {
        ServerProcess::spawn("an example", command, &self.folder.path().join("log"))
    }

    /// The lines that are complete.
    pub(crate) fn lines(&self) -> Result<Vec<String>> {
        let text = match fs::read_to_string(self.folder.path().join("log")) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let (complete, _) = text.rsplit_once('\n').unwrap_or_default();
        Ok(complete.lines().map(str::to_owned).collect())
    }

    /// The number of lines with this end.
    pub(crate) fn count(&self, end: &str) -> Result<usize> {
        Ok(self.lines()?.iter().filter(|line| line.ends_with(end)).count())
    }

    /// Waits for output of a process.
    pub(crate) async fn said(&self, process: &ServerProcess, words: &str) -> Result<()> {
        let start = format!("{} {words}", process.pid());
        self.until(words, |lines| lines.iter().any(|line| line.starts_with(&start)).then_some(()))
            .await
    }

    /// Waits until the lines contain a text.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        find: impl Fn(&[String]) -> Option<T>,
    ) -> Result<T> {
        let started = Instant::now();
        loop {
            let lines = self.lines()?;
            if let Some(found) = find(&lines) {
                return Ok(found);
            }
            if started.elapsed() > LONG {
                bail!("waited {LONG:?} for `{what}`\n{}", lines.join("\n"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Removes a process from its fleet.
pub(crate) fn take(fleet: &mut Vec<ServerProcess>, pid: u32) -> Result<ServerProcess> {
    let index = fleet.iter().position(|process| process.pid() == pid);
    Ok(fleet.swap_remove(index.context("no process of this fleet")?))
}
