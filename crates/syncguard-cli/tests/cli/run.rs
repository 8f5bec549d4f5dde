//! `syncguard run`, on every store.

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use syncguard_test_services::wait;

use crate::harness::{Harness, LONG, StoreTest, until_caught, until_gone};
use crate::processes::is_running;

/// A command with a child. The command prints both process ids.
const FAMILY: &str = "sleep 1000 & echo $$ $!; wait";

pub(crate) const ON_EVERY_STORE: &[StoreTest] = &[
    ("environment", environment),
    ("exit_status", exit_status),
    ("stdio", stdio),
    ("contention", contention),
    ("waiting", waiting),
    ("interrupted_while_waiting", interrupted_while_waiting),
    ("signals", signals),
    ("stolen", stolen),
    ("killed", killed),
    ("stopped", stopped),
    ("max_hold", max_hold),
    ("at_least", at_least),
    ("permits", permits),
    ("permits_that_differ", permits_that_differ),
    ("grace", grace),
    ("on_lost", on_lost),
];

fn environment(harness: &Harness) -> Result<()> {
    let show = "echo $SYNCGUARD_KEY; echo $SYNCGUARD_FENCE; echo $SYNCGUARD_STORE; env";
    let mut fences = Vec::new();
    for _ in 0..2 {
        let done = harness.run(&["run", "environment", "--", "sh", "-c", show])?.expect(0)?;
        let mut lines = done.stdout.lines();
        ensure!(lines.next() == Some("environment"));
        let fence = lines.next().context("a fence")?;
        ensure!(fence.len() == 15);
        fences.push(fence.parse::<u64>()?);
        let scheme = harness.url.split(':').next().unwrap_or_default();
        ensure!(lines.next().is_some_and(|store| store.starts_with(scheme)));
        ensure!(!done.stdout.contains("SYNCGUARD_SLOT"));
        ensure!(done.stderr.is_empty(), "{done:?}");
    }
    ensure!(fences[0] < fences[1]);
    Ok(())
}

fn exit_status(harness: &Harness) -> Result<()> {
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137)] {
        harness.run(&["run", "status", "--", "sh", "-c", script])?.expect(status)?;
    }
    // `--` can be left out, and options of the command are the command's.
    harness.run(&["run", "status", "sh", "-c", "exit 8"])?.expect(8)?;
    Ok(())
}

fn stdio(harness: &Harness) -> Result<()> {
    let script = "cat; echo problem >&2";
    let done = harness.run_with_input(&["run", "stdio", "--", "sh", "-c", script], "one\ntwo\n")?;
    let done = done.expect(0)?;
    ensure!(done.stdout == "one\ntwo\n" && done.stderr == "problem\n", "{done:?}");
    Ok(())
}

fn contention(harness: &Harness) -> Result<()> {
    let holder = harness.holder("contention", &[])?;
    let done = harness.run(&["run", "-n", "contention", "--", "echo", "ran"])?.expect(75)?;
    ensure!(
        done.stdout.is_empty() && done.stderr.contains("another process holds the lock"),
        "{done:?}"
    );
    // Messages contain no keys, since they end up in a journal.
    ensure!(!done.stderr.contains("contention"));
    harness.run(&["run", "-n", "-E", "9", "contention", "--", "true"])?.expect(9)?;
    harness.run(&["run", "--wait", "0s", "contention", "--", "true"])?.expect(75)?;
    let done = harness.run(&["run", "--wait", "300ms", "contention", "--", "true"])?.expect(75)?;
    ensure!(!done.stderr.contains("contention"), "{done:?}");
    harness.run(&["run", "-n", "contention:other", "--", "true"])?.expect(0)?;
    holder.end()?.expect(0)?;
    harness.run(&["run", "-n", "contention", "--", "true"])?.expect(0)?;
    Ok(())
}

fn waiting(harness: &Harness) -> Result<()> {
    let holder = harness.holder("waiting", &[])?;
    let waiter = harness.start(&["run", "waiting", "--", "echo", "mine"])?;
    ensure!(!harness.is_free("waiting")?);
    holder.end()?.expect(0)?;
    let done = waiter.ended()?.expect(0)?;
    ensure!(done.stdout == "mine\n", "{done:?}");
    Ok(())
}

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

fn stolen(harness: &Harness) -> Result<()> {
    let (running, pids) = harness.family(&["--ttl", "2s", "stolen"], FAMILY)?;
    let done = harness.run(&["release", "--force", "stolen"])?.expect(0)?;
    ensure!(done.stdout.contains("released"), "{done:?}");
    let done = running.ended()?.expect(76)?;
    ensure!(done.stderr.contains("no longer knows the lock"), "{done:?}");
    until_gone(&pids)
}

fn killed(harness: &Harness) -> Result<()> {
    let (running, pids) = harness.family(&["--ttl", "2s", "killed"], FAMILY)?;
    running.signal(Signal::KILL)?;
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

fn max_hold(harness: &Harness) -> Result<()> {
    let done = harness.run(&["run", "--max-hold", "300ms", "max-hold", "--", "sleep", "1000"])?;
    let done = done.expect(76)?;
    ensure!(done.stderr.contains("--max-hold is over"), "{done:?}");
    Ok(())
}

fn at_least(harness: &Harness) -> Result<()> {
    harness.run(&["run", "--at-least", "1h", "at-least", "--", "true"])?.expect(0)?;
    ensure!(!harness.is_free("at-least")?);
    harness.run(&["release", "--force", "at-least"])?.expect(0)?;
    ensure!(harness.is_free("at-least")?);
    // A permit has a minimum hold, too.
    let permit =
        ["run", "-n", "--permits", "1", "--at-least", "1h", "at-least:permit", "--", "true"];
    harness.run(&permit)?.expect(0)?;
    harness.run(&permit)?.expect(75)?;
    harness.run(&["release", "--force", "at-least:permit:permit:0"])?.expect(0)?;
    Ok(())
}

fn permits(harness: &Harness) -> Result<()> {
    let two = ["--permits", "2"];
    let show = ["--", "sh", "-c", "echo $SYNCGUARD_SLOT; read -r end; exit 0"];
    let arguments = [&["run"][..], &two, &["permits"], &show].concat();
    let (mut first, mut second) = (harness.start(&arguments)?, harness.start(&arguments)?);
    let mut slots = [first.line()?, second.line()?];
    slots.sort();
    ensure!(slots == ["0", "1"]);
    let third = ["run", "-n", "--permits", "2", "permits", "--", "true"];
    let done = harness.run(&third)?.expect(75)?;
    ensure!(done.stderr.contains("all 2 permits"), "{done:?}");
    let waiter = harness.start(&["run", "--permits", "2", "permits", "--", "echo", "mine"])?;
    first.end()?.expect(0)?;
    ensure!(waiter.ended()?.expect(0)?.stdout == "mine\n");
    second.end()?.expect(0)?;
    harness.run(&third)?.expect(0)?;
    Ok(())
}

/// A caller that gives a smaller number than its rivals is told, and locks nothing.
fn permits_that_differ(harness: &Harness) -> Result<()> {
    let two = ["--permits", "2"];
    let mut holders =
        [harness.holder("differ", &two)?, harness.holder("differ", &two)?].into_iter();
    let smaller = ["run", "--permits", "1", "differ", "--", "true"];
    for wait in ["--no-wait", "--wait=1h"] {
        let arguments = [&smaller[..1], &[wait], &smaller[1..]].concat();
        let done = harness.run(&arguments)?.expect(64)?;
        ensure!(done.stderr.contains("permit 1 is held, and --permits 1 ends at 0"), "{done:?}");
        ensure!(done.stderr.contains("Give the same number everywhere"), "{done:?}");
    }
    let held = harness.run(&["ls", "--json", "differ"])?.expect(0)?;
    ensure!(held.stdout.lines().count() == 2, "nothing more was locked: {held:?}");
    // A larger number is not noticed, and is safe.
    harness.run(&["run", "--permits", "3", "differ", "--", "true"])?.expect(0)?;
    // The permits of another semaphore, and locks with similar names, do not count.
    let similar = ["x", "+7", "07", "1024"].map(|end| format!("differ:permit:{end}"));
    let others = similar.map(|key| harness.holder(&key, &[]));
    holders.try_for_each(|holder| holder.end()?.expect(0).map(drop))?;
    harness.run(&smaller)?.expect(0)?;
    others.into_iter().try_for_each(|other| other?.end()?.expect(0).map(drop))
}

/// A command that ignores SIGTERM is killed after the grace.
fn grace(harness: &Harness) -> Result<()> {
    let deaf = "trap '' TERM; sleep 1000 & echo $$ $!; wait";
    let options = ["--ttl", "2s", "--grace", "200ms", "grace"];
    let (running, pids) = harness.family(&options, deaf)?;
    harness.run(&["release", "--force", "grace"])?.expect(0)?;
    running.ended()?.expect(76)?;
    until_gone(&pids)
}

fn on_lost(harness: &Harness) -> Result<()> {
    let polite = "trap 'echo asked' TERM; echo ready; read -r end; echo done; exit 5";
    let run = |what| -> Result<_> {
        let options =
            ["run", "--ttl", "2s", "--on-lost", what, "on-lost", "--", "sh", "-c", polite];
        let mut running = harness.start(&options)?;
        ensure!(running.line()? == "ready");
        harness.run(&["release", "--force", "on-lost"])?.expect(0)?;
        Ok(running)
    };
    let done = run("kill")?.ended()?.expect(76)?;
    ensure!(done.stdout.is_empty(), "{done:?}");
    let running = run("ignore")?;
    // Longer than a renewal takes: the command hears that the lock is lost, and continues.
    wait::until("the loss", LONG, || harness.is_free("on-lost"))?;
    let done = running.end()?.expect(76)?;
    ensure!(done.stdout == "done\n", "{done:?}");
    Ok(())
}
