//! Tests that need root, or `sudo`: commands that run as another user, and process 1 of a container.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::{install, tools, wait};

use crate::harness::{Harness, LONG, until_gone};
use crate::processes::{children, is_running};

/// A program that runs as root.
fn as_root(program: impl AsRef<OsStr>) -> Command {
    if rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.arg("-n").arg(program);
    command
}

fn signal(pid: u32, signal: Signal) -> Result<()> {
    let mut kill = as_root("kill");
    kill.arg(format!("-{}", signal.as_raw())).arg(pid.to_string());
    kill.status().map(drop).map_err(Into::into)
}

/// `syncguard` may not end a command that runs as another user, as behind `sudo`. Here root without the right to signal
/// other users' processes starts a command as `nobody`.
#[test]
fn a_command_of_another_user_is_said_to_go_on() -> Result<()> {
    const OTHER: &str = "setpriv --reuid 65534 --clear-groups sleep 1000";
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let url = format!("SYNCGUARD_STORE={}", server.url());
    // Or `syncguard` is killed, and the watchdog says it.
    for (line, is_killed, says) in [
        (format!("echo $$; exec {OTHER}"), false, "cannot be ended"),
        (format!("echo $$; exec {OTHER}"), true, "the lock is over"),
        (format!("{OTHER} & echo $!; wait"), false, "runs as another user"),
        (format!("{OTHER} & echo $!; wait"), true, "the lock is over"),
    ] {
        let mut command = as_root(install::require(&tools::SETPRIV)?);
        command.args(["--bounding-set", "-kill", "--inh-caps", "-kill", "env", &url]);
        command.arg(env!("CARGO_BIN_EXE_syncguard"));
        command.args(["run", "--ttl", "2s", "--grace", "100ms", "k", "--", "sh", "-c", &line]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut child = command.spawn()?;
        let mut pid = String::new();
        BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut pid)?;
        let pid: u32 = pid.trim().parse()?;
        wait::until("the other user", LONG, || {
            Ok(fs::read_to_string(format!("/proc/{pid}/status"))?.contains("Uid:\t65534\t65534"))
        })?;
        if is_killed {
            signal(syncguard(&child)?, Signal::KILL)?;
        } else {
            harness.run(&["release", "--force", "k"])?.expect(0)?;
        }
        wait::until(says, LONG, || {
            let said = fs::read_to_string(&log)?;
            Ok(said.contains(says) && said.contains("`sudo syncguard run KEY -- JOB`"))
        })
        .with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        ensure!(is_running(pid), "{line}: it was ended, which the message does not say");
        signal(pid, Signal::KILL)?;
        until_gone(&[pid])?;
        let status = child.wait()?;
        ensure!(is_killed || status.code() == Some(76), "{line}: {status}");
        harness.run(&["release", "--force", "k"])?.expect(0)?;
    }
    Ok(())
}

/// The process of `syncguard`, which `sudo` may have started.
fn syncguard(child: &Child) -> Result<u32> {
    let root = rustix::process::geteuid().is_root();
    let pid = if root { Some(child.id()) } else { children(child.id()).first().copied() };
    pid.context("a process")
}

/// Process 1 of a container gets the orphans of its commands.
#[test]
fn process_1_reaps_the_orphans_of_its_commands() -> Result<()> {
    let harness = Harness::file()?;
    let mut command = as_root(install::require(&tools::UNSHARE)?);
    command.args(["--mount", "--fork", "--pid", "--mount-proc", "env"]);
    command.arg(format!("SYNCGUARD_STORE={}", harness.url)).arg(env!("CARGO_BIN_EXE_syncguard"));
    let line = "for i in 1 2 3; do (sleep 0.2 &) ; done; echo held; read -r end; exit 0";
    command.args(["run", "--loop", "--tick", "* * * * * *", "k", "--"]);
    command.args(["sh", "-c", line]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut line)?;
    ensure!(line == "held\n");
    let unshare = syncguard(&child)?;
    let first = *children(unshare).first().context("process 1")?;
    // The command, and the watchdog.
    let seen = wait::until("only its own children", LONG, || Ok(children(first).len() == 2));
    // No child is left between two commands.
    drop(child.stdin.take());
    let none = wait::until("no children", LONG, || Ok(children(first).is_empty()));
    signal(first, Signal::TERM)?;
    ensure!(child.wait()?.success());
    seen.and(none)
}
