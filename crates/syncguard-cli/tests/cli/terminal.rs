//! A terminal: a detached session of tmux.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use syncguard_test_services::{install, tools, wait};
use tempfile::TempDir;

use crate::harness::{Harness, LONG};

/// Runs a command to its end, and returns what a terminal gets from it.
pub(crate) fn on_terminal(mut command: Command) -> Result<Vec<u8>> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let name = ptsname(&terminal, Vec::new())?;
    let side = File::options().read(true).write(true).open(name.to_str()?)?;
    command.stdin(side.try_clone()?).stdout(side.try_clone()?).stderr(side);
    let mut child = command.spawn()?;
    // The last handles of the other side, beside those of the child.
    drop(command);
    let mut printed = Vec::new();
    let mut terminal = File::from(terminal);
    // Ends with an error when the other side is closed.
    let _ = terminal.read_to_end(&mut printed);
    child.wait()?;
    Ok(printed)
}

/// A terminal. Dropping it ends all its processes.
pub(crate) struct Terminal {
    folder: TempDir,
    tmux: PathBuf,
}

impl Terminal {
    /// Runs a script in a shell with job control, on this store. `$SYNCGUARD` is the command.
    pub(crate) fn start(harness: &Harness, script: &str) -> Result<Self> {
        let tmux = install::require(&tools::TMUX)?;
        let terminal = Self { folder: tempfile::tempdir()?, tmux };
        let shell = format!("bash --norc --noprofile -i -c {}; sleep 1000", quoted(script));
        let mut command = terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24"]);
        command.args(["-e", &format!("SYNCGUARD_STORE={}", harness.url)]);
        command.args(["-e", concat!("SYNCGUARD=", env!("CARGO_BIN_EXE_syncguard"))]);
        command.arg(shell);
        let output = command.output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(terminal)
    }

    /// The text on the screen.
    pub(crate) fn screen(&self) -> Result<String> {
        let output = self.tmux(&["capture-pane", "-p"]).output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until the screen satisfies a condition.
    pub(crate) fn until(&self, what: &str, is_there: impl Fn(&str) -> bool) -> Result<()> {
        let mut last = String::new();
        let seen = wait::until(what, LONG, || {
            last = self.screen()?;
            Ok(is_there(&last))
        });
        seen.with_context(|| last)
    }

    /// Presses keys, as tmux calls them.
    pub(crate) fn keys(&self, keys: &str) -> Result<()> {
        let output = self.tmux(&["send-keys", keys]).output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(())
    }

    pub(crate) fn resize(&self, columns: u32, rows: u32) -> Result<()> {
        let (x, y) = (columns.to_string(), rows.to_string());
        let output = self.tmux(&["resize-window", "-x", &x, "-y", &y]).output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(())
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tmux);
        command.arg("-S").arg(self.folder.path().join("socket")).args(["-f", "/dev/null"]);
        command.args(arguments).stdin(Stdio::null());
        // A tmux that the test itself runs in must not be used, and all characters have to be
        // shown.
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").env("TERM", "xterm");
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]).output();
    }
}

fn quoted(script: &str) -> String {
    format!("'{}'", script.replace('\'', "'\\''"))
}
