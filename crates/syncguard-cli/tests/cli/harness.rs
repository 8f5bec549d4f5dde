//! A store, and the command run on it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use syncguard_test_services::wait;
use tempfile::TempDir;

use crate::processes::is_running;

/// A time far longer than any step takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A test that must pass on every store, with its name.
pub(crate) type StoreTest = (&'static str, fn(&Harness) -> Result<()>);

/// A store. Each test uses keys of its own.
pub(crate) struct Harness {
    pub(crate) url: String,
    /// The password, which no output may show.
    pub(crate) password: Option<String>,
    _folder: Option<TempDir>,
}

impl Harness {
    /// A file in a folder of its own.
    pub(crate) fn file() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let url = format!("sqlite://{}", folder.path().join("locks.db").display());
        Ok(Self { url, password: None, _folder: Some(folder) })
    }

    pub(crate) fn at(url: String, password: Option<&str>) -> Self {
        Self { url, password: password.map(str::to_owned), _folder: None }
    }

    /// The command, not started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_syncguard");
        let mut command = if cfg!(target_os = "linux") {
            // A test in the background has SIGINT ignored, and children inherit that.
            let mut command = Command::new("env");
            command.args(["--default-signal", program]);
            command
        } else {
            Command::new(program)
        };
        command.env("SYNCGUARD_STORE", &self.url).env_remove("SYNCGUARD_STORE_FILE");
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Finished> {
        Ok(self.checked(&self.command(arguments).output()?))
    }

    /// Runs the command to its end, with this standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<Finished> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
        Ok(self.checked(&child.wait_with_output()?))
    }

    /// The result of a command, which must show no password.
    pub(crate) fn checked(&self, output: &Output) -> Finished {
        let done = Finished::of(output);
        if let Some(password) = &self.password {
            assert!(!done.stdout.contains(password) && !done.stderr.contains(password), "{done:?}");
        }
        done
    }

    /// Starts the command.
    pub(crate) fn start(&self, arguments: &[&str]) -> Result<Running> {
        Self::spawn(self.command(arguments))
    }

    /// Starts a prepared command.
    pub(crate) fn spawn(mut command: Command) -> Result<Running> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Running { child: Some(child), stdout })
    }

    /// Starts a command that holds the lock until its standard input is closed.
    pub(crate) fn holder(&self, key: &str, options: &[&str]) -> Result<Running> {
        let mut arguments = vec!["run"];
        arguments.extend(options);
        arguments.extend([key, "--", "sh", "-c", "echo held; read -r end; exit 0"]);
        let mut running = self.start(&arguments)?;
        ensure!(running.line()? == "held");
        Ok(running)
    }

    /// Starts a command and its child under a lock, with these options and key. Returns their process ids.
    pub(crate) fn family(&self, options: &[&str], script: &str) -> Result<(Running, Vec<u32>)> {
        let mut running = self.start(&[&["run"], options, &["--", "sh", "-c", script]].concat())?;
        let pids = running.numbers()?;
        Ok((running, pids))
    }

    /// Returns whether the lock is free, as a command without waiting sees it.
    pub(crate) fn is_free(&self, key: &str) -> Result<bool> {
        let done = self.run(&["run", "--no-wait", key, "--", "true"])?;
        match done.status {
            0 => Ok(true),
            75 => Ok(false),
            _ => bail!("{done:?}"),
        }
    }
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// # Errors
    ///
    /// Fails if the command ended with another status.
    pub(crate) fn expect(self, status: i32) -> Result<Self> {
        ensure!(self.status == status, "not {status}: {self:?}");
        Ok(self)
    }
}

/// A running command. Dropping it kills it.
pub(crate) struct Running {
    child: Option<Child>,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    /// The next line of its output.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        if line.is_empty() {
            bail!("it says nothing more: {:?}", self.take_end()?);
        }
        Ok(line.trim_end().to_owned())
    }

    /// The numbers in the next line.
    pub(crate) fn numbers(&mut self) -> Result<Vec<u32>> {
        self.line()?.split(' ').map(|word| word.parse().context("a number")).collect()
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        Ok(self.child.as_ref().context("it runs")?.id())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid()?.cast_signed()).context("a process")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Closes its standard input, and waits for its end.
    pub(crate) fn end(mut self) -> Result<Finished> {
        self.take_end()
    }

    fn take_end(&mut self) -> Result<Finished> {
        let mut child = self.child.take().context("it runs")?;
        drop(child.stdin.take());
        let mut stdout = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut stdout)?;
        let output = child.wait_with_output()?;
        Ok(Finished { stdout, ..Finished::of(&output) })
    }

    /// Waits for its end, without closing its standard input.
    pub(crate) fn ended(mut self) -> Result<Finished> {
        let mut child = self.child.take().context("it runs")?;
        let input = child.stdin.take();
        wait::until("the end", LONG, || Ok(child.try_wait()?.is_some()))?;
        drop(input);
        self.child = Some(child);
        self.take_end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until none of these processes runs.
pub(crate) fn until_gone(pids: &[u32]) -> Result<()> {
    wait::until("the processes", LONG, || Ok(!pids.iter().any(|pid| is_running(*pid))))
}

/// Waits until a process catches this signal.
pub(crate) fn until_caught(pid: u32, signal: Signal) -> Result<()> {
    wait::until("the signal handlers", LONG, || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = u64::from_str_radix(mask.context("a mask")?.trim(), 16)?;
        Ok(mask >> (signal.as_raw() - 1) & 1 == 1)
    })
}
