//! `syncguard run`, on every store.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;

use crate::harness::{Finished, Harness, StoreTest, until_caught, until_gone};
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

/// The store stands still as the command ends, and answers the release when the lock is over. The work was done in time, so
/// its status counts, and a tick is done.
fn a_late_release(url: String, mut pause: impl FnMut(bool) -> Result<()>) -> Result<()> {
    let harness = Harness::at(url, None);
    let line = ["--", "sh", "-c", "echo began; read -r end; exit 0"];
    let tick = [
        "run",
        "--ttl",
        "2s",
        "--tick",
        "0 0 29 2 *",
        "--max-lateness",
        "9years",
        "--attempts",
        "2",
        "job",
    ];
    let begun = [&["run", "--ttl", "2s", "k"][..], &tick].map(|options| {
        let mut running = harness.start(&[options, &line].concat())?;
        ensure!(running.line()? == "began");
        Ok(running)
    });
    pause(true)?;
    let ends = begun.map(|running| running.map(|running| thread::spawn(|| running.end())));
    // The TTL, and the tolerance.
    thread::sleep(Duration::from_millis(3_500));
    pause(false)?;
    for end in ends {
        let done: Finished = end?.join().ok().context("a thread")??.expect(0)?;
        // On a busy machine the store is asked for too long.
        let said = ["the command had ended in time", "could not be given back"];
        let is_marked = done.stderr.is_empty();
        ensure!(is_marked || said.iter().any(|says| done.stderr.contains(says)), "{done:?}");
    }
    harness.run(&[&tick[..], &["--", "echo", "again"]].concat())?.expect(79).map(drop)
}

#[test]
fn a_release_that_postgres_answers_late_changes_no_status() -> Result<()> {
    let mut server = PostgresServer::start()?;
    let url = format!("{}?setup_schema=true", server.url());
    a_late_release(url, |is_paused| if is_paused { server.pause() } else { server.resume() })
}

#[test]
fn a_release_that_etcd_answers_late_changes_no_status() -> Result<()> {
    let mut server = EtcdCluster::start(1)?;
    let url = server.url();
    a_late_release(url, |is_paused| if is_paused { server.pause(0) } else { server.resume(0) })
}

#[test]
fn a_release_that_redis_answers_late_changes_no_status() -> Result<()> {
    let mut server = RedisServer::start()?;
    let url = server.url();
    a_late_release(url, |is_paused| if is_paused { server.pause() } else { server.resume() })
}
