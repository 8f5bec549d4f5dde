//! A server's process, and the signals a fault test sends to it.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{wait, watchdog};

mod tree;

/// A running server in a process group of its own, killed when dropped.
#[derive(Debug)]
pub struct ServerProcess {
    name: &'static str,
    child: Child,
    log: PathBuf,
    /// Descendants stopped by [`pause`](Self::pause), for [`resume`](Self::resume).
    paused: Vec<u32>,
}

impl ServerProcess {
    /// Starts `command` with its output appended to the file `log`.
    pub fn spawn(name: &'static str, mut command: Command, log: &Path) -> Result<Self> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}: {command:?}"))?;
        let process = Self { name, child, log: log.to_owned(), paused: Vec::new() };
        watchdog::add(process.pid())?;
        Ok(process)
    }

    /// The process id of the server's main process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Polls `probe` until it answers `true`.
    pub fn wait_until_ready(
        &mut self,
        timeout: Duration,
        mut probe: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let mut ended = None;
        let ready = wait::until(self.name, timeout, || {
            ended = self.child.try_wait()?;
            Ok(ended.is_some() || probe()?)
        });
        if let Some(status) = ended {
            bail!("{} ended at its start: {status}\n{}", self.name, self.log_tail());
        }
        ready.with_context(|| format!("{} does not get ready\n{}", self.name, self.log_tail()))
    }

    /// Asks the server to stop with `signal`, and kills it if it still runs after a minute.
    pub fn stop(mut self, signal: Signal) -> Result<()> {
        self.resume()?;
        self.signal(signal)?;
        let child = &mut self.child;
        wait::until("the end of a server", STOP_TIMEOUT, || Ok(child.try_wait()?.is_some()))
            .with_context(|| format!("{} had to be killed\n{}", self.name, self.log_tail()))
    }

    /// Waits for the end of a process that ends by itself.
    pub fn wait(mut self, timeout: Duration) -> Result<()> {
        let status = self.ended(timeout)?;
        ensure!(status.success(), "{} failed: {status}\n{}", self.name, self.log_tail());
        Ok(())
    }

    /// Sends SIGTERM and waits until the process has ended in order, or by the signal itself if the signal came
    /// before the process could handle it.
    pub fn end(mut self, timeout: Duration) -> Result<()> {
        self.signal(Signal::TERM)?;
        let status = self.ended(timeout)?;
        let in_order = status.success() || status.signal() == Some(Signal::TERM.as_raw());
        ensure!(in_order, "{} failed: {status}\n{}", self.name, self.log_tail());
        Ok(())
    }

    fn ended(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let mut ended = None;
        let waited = wait::until("the end of a process", timeout, || {
            ended = self.child.try_wait()?;
            Ok(ended.is_some())
        });
        waited.with_context(|| format!("{}\n{}", self.name, self.log_tail()))?;
        ended.context("the end of a process")
    }

    /// SIGKILL for the server and all its descendants.
    pub fn kill(mut self) -> Result<()> {
        self.kill_tree()
    }

    /// SIGSTOP for the server and all its descendants: connections stay open, and requests get no answer. Returns
    /// once all of them have stopped.
    pub fn pause(&mut self) -> Result<()> {
        let until_stopped = |pids: &[u32]| {
            wait::until("processes to stop", STOP_TIMEOUT, || tree::all_stopped(pids))
        };
        // The main process comes first: while it is stopped, it starts no more children.
        self.signal(Signal::STOP)?;
        until_stopped(&[self.pid()])?;
        let children = tree::descendants(self.pid())?;
        for &pid in &children {
            signal_process(pid, Signal::STOP)?;
            // PostgreSQL puts each child into its own group. Stopped children would not notice that the server is
            // gone.
            watchdog::add(pid)?;
            self.paused.push(pid);
        }
        until_stopped(&children)
    }

    /// SIGCONT after [`pause`](Self::pause).
    pub fn resume(&mut self) -> Result<()> {
        for pid in self.paused.drain(..) {
            signal_process(pid, Signal::CONT)?;
            watchdog::forget(pid)?;
        }
        self.signal(Signal::CONT)
    }

    /// The last lines the server wrote.
    fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        accept_gone(kill_process_group(raw(self.pid())?, signal))
            .with_context(|| format!("cannot send {signal:?} to {}", self.name))
    }

    fn kill_tree(&mut self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let children = tree::descendants(self.pid())?;
        self.signal(Signal::KILL)?;
        for &child in &children {
            signal_process(child, Signal::KILL)?;
        }
        self.child.wait()?;
        // PostgreSQL does not start again while a child is attached to its shared memory.
        wait::until("the end of killed processes", STOP_TIMEOUT, || tree::all_ended(&children))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // An exited child that was waited for must not be signalled: another process may have its number.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.kill_tree();
        }
        for &pid in &self.paused {
            let _ = watchdog::forget(pid);
        }
        let _ = watchdog::forget(self.pid());
    }
}

fn signal_process(pid: u32, signal: Signal) -> Result<()> {
    accept_gone(kill_process(raw(pid)?, signal)).with_context(|| format!("cannot send {signal:?}"))
}

fn accept_gone(result: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match result {
        Err(Errno::SRCH) => Ok(()),
        other => other,
    }
}

fn raw(pid: u32) -> Result<Pid> {
    Pid::from_raw(i32::try_from(pid)?).context("zero is no process id")
}

const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const LOG_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> ServerProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ServerProcess::spawn("script", command, Path::new("/dev/null")).unwrap()
    }

    #[test]
    fn an_end_in_order_is_a_success_or_the_signal_itself() {
        // One process that ignores the signal, and two that handle it.
        run("exec sleep 60").end(STOP_TIMEOUT).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (status, is_fine) in [(0, true), (3, false)] {
            let listens = folder.path().join(status.to_string());
            let script = format!(
                "trap 'exit {status}' TERM; touch {}; while :; do sleep 0.01; done",
                listens.display()
            );
            let process = run(&script);
            wait::until("the trap", STOP_TIMEOUT, || Ok(listens.exists())).unwrap();
            assert_eq!(process.end(STOP_TIMEOUT).is_ok(), is_fine, "{status}");
        }
    }
}
