//! Keys, lock ids and passwords appear only if they were asked for.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::harness::{Finished, Harness, StoreTest};
use crate::processes::family;

pub(crate) const ON_EVERY_STORE: &[StoreTest] = &[("secrets", secrets)];

/// The key that no message may name.
const CANARY: &str = "canary:hunter7";

/// Checks the messages, which end up in the journal and in the mails of cron, and the result.
fn check(done: &Finished, lock_id: &str, arguments: &[&str]) -> Result<()> {
    let said = &done.stderr;
    ensure!(!said.contains("hunter7"), "a key in a message: {arguments:?} {said}");
    ensure!(!said.contains(lock_id), "a lock id in a message: {arguments:?} {said}");
    let is_asked_for = arguments.contains(&"--reveal");
    ensure!(done.stdout.contains(lock_id) == is_asked_for, "a lock id: {arguments:?} {done:?}");
    Ok(())
}

fn secrets(harness: &Harness) -> Result<()> {
    // Renewed every 200 s, so that no pause of the machine ends the lock during this test.
    let holder = harness.holder(CANARY, &["-vv", "--ttl", "10m"])?;
    let shown = harness.run(&["status", CANARY, "--json", "--reveal"])?.expect(0)?;
    let shown: Value = serde_json::from_str(&shown.stdout)?;
    let lock_id = shown["lockId"].as_str().context("a lock id")?;

    // `run` looks for the password in all output.
    for arguments in [
        &["status", CANARY][..],
        &["status", CANARY, "--json"],
        &["status", CANARY, "--reveal"],
        &["status", CANARY, "--json", "--reveal"],
        &["ls"],
        &["ls", "canary:"],
        &["ls", "--json", "canary:"],
        &["ls", "--json", "--reveal", "canary:"],
        &["ls", "--longer-than", "1h", "canary:*"],
        &["export", "canary:*"],
        &["export", "canary:?"],
        &["fence", "show", CANARY],
        &["fence", "show", CANARY, "--json"],
        &["fence", "raise", CANARY, "1"],
        &["fence", "raise", CANARY, "999999999999999", "--json", "--ttl"],
        &["run", "-n", CANARY, "--", "true"],
        &["run", "-w", "100ms", CANARY, "--", "true"],
        &["run", "--permits", "0", CANARY, "--", "true"],
        &["acquire", "-n", CANARY, "--json"],
        &["run", CANARY, "--", "/no/such/command"],
        &["run", CANARY],
        &["watch", CANARY],
        &["release", CANARY],
        &["doctor", "--rounds", "2"],
        &["doctor", "--rounds", "2", "--json"],
    ] {
        check(&harness.run(arguments)?, lock_id, arguments)?;
        // The same with the library's log.
        let verbose = [&["-vv"][..], arguments].concat();
        check(&harness.run(&verbose)?, lock_id, &verbose)?;
    }
    let arguments = ["watch", CANARY, "--json", "-vv"];
    let mut watch = harness.start(&arguments)?;
    let line = watch.line()?;
    ensure!(line.contains(CANARY) && !line.contains(lock_id), "{line}");

    // The command lines and environments of the processes. A process that was given the password
    // has it in its environment, which only its user can read, and does not pass it on.
    let waiter = harness.start(&["run", CANARY, "--", "true"])?;
    for root in [holder.pid()?, watch.pid()?, waiter.pid()?] {
        for (pid, seen) in family(root) {
            ensure!(!seen.contains(lock_id), "{seen}");
            let command_line = seen.split(" | ").next().unwrap_or_default();
            if let Some(password) = &harness.password {
                let given = if pid == root { command_line } else { &seen };
                ensure!(!given.contains(password), "{seen}");
            }
        }
    }
    drop((watch, waiter));

    let arguments = ["release", "--force", "--json", "-vv", CANARY];
    check(&harness.run(&arguments)?.expect(0)?, lock_id, &arguments)?;
    // The holder notices the loss when it releases, and reports it.
    let done = holder.end()?.expect(76)?;
    ensure!(done.stderr.contains("no longer knows the lock"), "{done:?}");
    check(&done, lock_id, &["run"])?;

    let to = Harness::file()?;
    for more in [&[][..], &["--json"], &["-vv"]] {
        let arguments = [&["copy-fences"][..], more].concat();
        let mut command = harness.command(&arguments);
        command.env("SYNCGUARD_FROM", &harness.url).env("SYNCGUARD_TO", &to.url);
        let done = harness.checked(&command.output()?).expect(0)?;
        check(&done, lock_id, &arguments)?;
    }
    wrong_password(harness)
}

/// A wrong password is not shown either.
fn wrong_password(harness: &Harness) -> Result<()> {
    let Some(password) = &harness.password else { return Ok(()) };
    let wrong = "hunter8-wrong";
    let other = Harness::at(harness.url.replace(password, wrong), Some(wrong));
    for arguments in [
        &["status", "k"][..],
        &["ls", "--json"],
        &["run", "k", "--", "true"],
        &["fence", "show", "k"],
        &["release", "--force", "k"],
        &["-vv", "status", "k"],
    ] {
        other.run(arguments)?.expect(77)?;
    }
    other.run(&["doctor", "--json"])?.expect(78)?;
    let to = Harness::file()?;
    other.run(&["copy-fences", "--from", &other.url, "--to", &to.url])?.expect(77)?;
    Ok(())
}
