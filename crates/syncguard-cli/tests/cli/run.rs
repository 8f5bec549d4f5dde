//! `syncguard run`, on every store.

use std::process::Command;

use anyhow::{Result, ensure};
use rustix::process::Signal;

use crate::harness::{Harness, StoreTest, until_caught, until_gone};
use crate::processes::is_running;

/// A command with a child. The command prints both process ids.
const FAMILY: &str = "sleep 1000 & echo $$ $!; wait";

pub(crate) const ON_EVERY_STORE: &[StoreTest] = &[
    ("interrupted_while_waiting", interrupted_while_waiting),
    ("signals", signals),
    ("stopped", stopped),
    ("on_lost", on_lost),
];

fn interrupted_while_waiting(harness: &Harness) -> Result<()> {
    let holder = harness.holder("interrupted", &[])?;
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let waiter = harness.start(&["run", "interrupted", "--", "echo", "mine"])?;
        // The waiter catches signals before it asks for the lock, and this one last.
        until_caught(waiter.pid()?, Signal::CHILD)?;
        waiter.signal(signal)?;
        let done = waiter.ended()?.expect(status)?;
        ensure!(done.stdout.is_empty());
    }
    holder.end()?.expect(0)?;
    ensure!(harness.is_free("interrupted")?);
    Ok(())
}

fn signals(harness: &Harness) -> Result<()> {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let script = format!("trap 'echo got {name}; exit 3' {name}; echo ready; read -r end");
        let mut running = harness.start(&["run", "signals", "--", "sh", "-c", &script])?;
        ensure!(running.line()? == "ready");
        running.signal(signal)?;
        ensure!(running.line()? == format!("got {name}"));
        running.ended()?.expect(3)?;
    }
    // The whole group gets a signal to end.
    let (running, pids) = harness.family(&["signals"], FAMILY)?;
    running.signal(Signal::TERM)?;
    running.ended()?.expect(143)?;
    until_gone(&pids)
}

/// A stopped holder does not renew. Its command ends before a waiter can have the lock, also if the command itself stops
/// `syncguard`, before the watchdog has heard of the lock.
fn stopped(harness: &Harness) -> Result<()> {
    let at_once = format!("kill -STOP $PPID; {FAMILY}");
    for (key, script) in [("stopped", FAMILY), ("stopped:at-once", &at_once)] {
        let (running, pids) = harness.family(&["--ttl", "2s", key], script)?;
        running.signal(Signal::STOP)?;
        harness.run(&["run", "--wait", "30s", key, "--", "true"])?.expect(0)?;
        ensure!(!pids.iter().any(|pid| is_running(*pid)), "{key}");
        running.signal(Signal::CONT)?;
        running.ended()?.expect(76)?;
    }
    Ok(())
}

fn on_lost(harness: &Harness) -> Result<()> {
    let polite = "trap 'echo asked' TERM; echo ready; read -r end; echo done; exit 5";
    let run = |what| -> Result<_> {
        let options =
            ["run", "--ttl", "2s", "--on-lost", what, "on-lost", "--", "sh", "-c", polite];
        let command = harness.command(&options);
        let mut with_messages = Command::new("sh");
        with_messages.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).env("SYNCGUARD_STORE", &harness.url);
        with_messages.arg(command.get_program()).args(command.get_args());
        let mut running = Harness::spawn(with_messages)?;
        ensure!(running.line()? == "ready");
        harness.run(&["release", "--force", "on-lost"])?.expect(0)?;
        Ok(running)
    };
    let done = run("kill")?.ended()?.expect(76)?;
    ensure!(!done.stdout.contains("asked") && !done.stdout.contains("done"), "{done:?}");
    let mut running = run("ignore")?;
    ensure!(running.line()?.contains("continues without it"));
    let done = running.end()?.expect(76)?;
    ensure!(done.stdout == "done\n", "{done:?}");
    Ok(())
}
