//! The child processes: this program once more, with a job.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::job::{Contest, Job, Way};

/// The first argument of a child program.
pub(crate) const CHILD: &str = "--child";
const READY: &str = "ready";

/// A child, seen from its parent. Drop kills it, so that it cannot clean up.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(store: &str, job: &Job) -> Result<Self> {
        let mut child = program(store, job)?
            .arg(serde_json::to_string(&(store, job))?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("a pipe")?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Self { child, input, output })
    }

    /// Waits until the child is connected.
    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        match self.line()?.as_str() {
            READY => Ok(()),
            other => bail!("a child said {other:?}"),
        }
    }

    /// Sends the start time.
    pub(crate) fn begin_at(&mut self, start: u64) -> Result<()> {
        Ok(writeln!(self.input, "{start}")?)
    }

    /// Waits for the child's answer.
    pub(crate) fn answer<T: DeserializeOwned>(&mut self) -> Result<T> {
        Ok(serde_json::from_str(&self.line()?)?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("a child has ended too early: {}", self.child.wait()?);
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program as a child, or the TypeScript library if it is installed and has a driver for the store.
fn program(store: &str, job: &Job) -> Result<Command> {
    let is_type_script = matches!(job, Job::Contest(Contest { way: Way::TypeScript, .. }))
        && (store.starts_with("redis:") || store.starts_with("postgres:"))
        && std::env::var_os("SYNCGUARD_TYPESCRIPT").is_some();
    if is_type_script {
        let mut command = Command::new("node");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/typescript.mjs"));
        return Ok(command);
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD);
    Ok(command)
}

/// The child's side: reports that all is prepared, and waits for the start time.
pub(crate) fn wait_for_start() -> Result<u64> {
    println!("{READY}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    line.trim_end().parse().context("the parent is gone")
}

/// The child's side: answers the parent.
pub(crate) fn tell(answer: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(answer)?);
    Ok(())
}
