//! `syncguard acquire`, `extend` and `release`: locks that outlive the command that took them.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::wait;
use tempfile::TempDir;

use crate::harness::{Finished, Harness, LONG, StoreTest};
use crate::schema::Schema;

pub(crate) const ON_EVERY_STORE: &[StoreTest] =
    &[("acquired_extended_released", acquired_extended_released)];

/// A place for a file, which does not exist.
pub(crate) fn place() -> Result<(TempDir, String)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("lock").display().to_string();
    Ok((folder, path))
}

fn json(text: &str) -> Result<Value> {
    Ok(serde_json::from_str(text)?)
}

fn millis(lock: &Value) -> Result<u64> {
    lock["expiresAtMs"].as_u64().context("a time")
}

fn acquired_extended_released(harness: &Harness) -> Result<()> {
    let (_folder, path) = place()?;
    let key = "acquired";
    let options = ["acquire", key, "--save", &path, "--holder", "agent-7", "--note", "step 1"];
    let done = harness.run(&options)?.expect(0)?;
    ensure!(done.stdout.is_empty() && done.stderr.is_empty(), "{done:?}");
    ensure!(fs::metadata(&path)?.permissions().mode() & 0o777 == 0o600);
    let saved = fs::read_to_string(&path)?;
    Schema::of("acquire")?.check_lines(&saved)?;
    let first = json(&saved)?;
    ensure!(first["key"] == key);

    // The lock is held after the end of the command, by this holder, for ten minutes.
    ensure!(!harness.is_free(key)?);
    let status = json(&harness.run(&["status", key, "--json", "--reveal"])?.expect(0)?.stdout)?;
    ensure!(status["holder"] == "agent-7" && status["note"] == "step 1", "{status}");
    for field in ["lockId", "fence", "expiresAtMs"] {
        ensure!(status[field] == first[field], "{field}: {status}");
    }
    let ttl = millis(&status)? - status["acquiredAtMs"].as_u64().context("a time")?;
    ensure!((595_000..=605_000).contains(&ttl), "{ttl}");

    // Extended, in the file and by a pipe.
    harness.run(&["extend", "--from", &path, "--ttl", "1h"])?.expect(0)?;
    let second = json(&fs::read_to_string(&path)?)?;
    ensure!(millis(&second)? > millis(&first)? + 1_000_000, "{second}");
    ensure!(fs::metadata(&path)?.permissions().mode() & 0o777 == 0o600);
    ensure!(second["lockId"] == first["lockId"] && second["fence"] == first["fence"]);
    let piped =
        harness.run_with_input(&["extend", "--from", "-"], &second.to_string())?.expect(0)?;
    Schema::of("extend")?.check_lines(&piped.stdout)?;
    ensure!(millis(&json(&piped.stdout)?)? < millis(&second)?, "the TTL replaces the rest");

    // Released: the file is gone, and the lock is free.
    let done = harness.run(&["release", "--from", &path])?.expect(0)?;
    ensure!(done.stdout == "released\n" && !Path::new(&path).exists(), "{done:?}");
    ensure!(harness.is_free(key)?);
    let over = harness.run_with_input(&["extend", "--from", "-"], &second.to_string())?;
    ensure!(over.expect(76)?.stderr.contains("does not hold the lock any more"));
    let arguments = ["release", "--from", "-", "--json"];
    let over = harness.run_with_input(&arguments, &second.to_string())?.expect(76)?;
    Schema::of("release")?.check_lines(&over.stdout)?;
    ensure!(json(&over.stdout)?["released"] == false);
    Ok(())
}

/// The command ends before the lock, so its label tells of the process that has called it.
#[test]
fn the_caller_is_the_holder() -> Result<()> {
    let harness = Harness::file()?;
    let status = |key: &str| json(&harness.run(&["status", key, "--json"])?.expect(0)?.stdout);
    let holder = |key: &str| -> Result<String> {
        Ok(status(key)?["holder"].as_str().unwrap_or_default().to_owned())
    };
    let acquire = |key: &str| {
        let mut command = harness.command(&["acquire", key, "--json"]);
        command.env("LOGNAME", "alice").env_remove("SYNCGUARD_HOLDER");
        command
    };
    Finished::of(&acquire("called").output()?).expect(0)?;
    let label = holder("called")?;
    let id = std::process::id();
    ensure!(label.starts_with("alice@") && label.ends_with(&format!("/{id}")), "{label}");
    let mut alone = acquire("no-user");
    Finished::of(&alone.env_remove("LOGNAME").env_remove("USER").output()?).expect(0)?;
    ensure!(label == format!("alice@{}", holder("no-user")?), "{label}");

    // A label that a person has set decides, also in the URL of the store.
    let by_option = ["--holder", "first", "--note", "second"];
    for (key, options, expected) in
        [("by-variable", &[][..], ["ci", "step 1"]), ("by-option", &by_option, ["first", "second"])]
    {
        let mut command = acquire(key);
        command.args(options).env("SYNCGUARD_HOLDER", "ci").env("SYNCGUARD_NOTE", "step 1");
        Finished::of(&command.output()?).expect(0)?;
        let status = status(key)?;
        ensure!([&status["holder"], &status["note"]] == expected, "{key}: {status}");
    }
    for (parameter, expected) in [("holder=by%20url", "by url"), ("holder=", "")] {
        let mut command = acquire(parameter);
        command.env("SYNCGUARD_STORE", format!("{}?{parameter}", harness.url));
        Finished::of(&command.output()?).expect(0)?;
        ensure!(holder(parameter)? == expected, "{parameter}");
    }
    Ok(())
}

#[test]
fn a_file_that_exists_is_left_alone() -> Result<()> {
    let (harness, (_folder, path)) = (Harness::file()?, place()?);
    fs::write(&path, "mine")?;
    let done = harness.run(&["acquire", "k", "--save", &path])?.expect(64)?;
    ensure!(done.stderr.contains("release --from"), "{done:?}");
    ensure!(fs::read_to_string(&path)? == "mine" && harness.is_free("k")?);
    for (text, says) in [("mine", "holds no lock"), ("{\"key\":\"k\"}", "no lock")] {
        fs::write(&path, text)?;
        for command in ["extend", "release"] {
            let done = harness.run(&[command, "--from", &path])?.expect(64)?;
            ensure!(done.stderr.contains(says), "{text}: {done:?}");
        }
    }
    Ok(())
}

/// The file of an acquire that gets nothing is removed, whatever ends it.
#[test]
fn no_file_is_left_without_a_lock() -> Result<()> {
    let (harness, (_folder, path)) = (Harness::file()?, place()?);
    let holder = harness.holder("k", &[])?;
    harness.run(&["acquire", "k", "--save", &path, "-w", "0.2"])?.expect(75)?;
    ensure!(!Path::new(&path).exists());
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let waiter = harness.start(&["acquire", "k", "--save", &path])?;
        wait::until("the file", LONG, || Ok(Path::new(&path).exists()))?;
        waiter.signal(signal)?;
        waiter.ended()?.expect(status)?;
        ensure!(!Path::new(&path).exists(), "{status}");
    }
    holder.end()?.expect(0)?;
    let away = Harness::at("redis://127.0.0.1:1".to_owned(), None);
    away.run(&["acquire", "k", "--save", &path])?.expect(69)?;
    ensure!(!Path::new(&path).exists());
    harness.run(&["acquire", "k", "--save", "/no/such/folder/lock"])?.expect(71)?;
    ensure!(harness.is_free("k")?);
    Ok(())
}

/// A lock that nobody could release is given back.
#[test]
fn a_lock_that_cannot_be_recorded_is_released() -> Result<()> {
    let harness = Harness::file()?;
    let mut full = harness.command(&["acquire", "k", "--json"]);
    full.stdout(OpenOptions::new().write(true).open("/dev/full")?);
    let done = Finished::of(&full.output()?).expect(71)?;
    let says = "the output cannot be written";
    ensure!(done.stderr.contains(says) && done.stderr.contains("released again"), "{done:?}");
    ensure!(harness.is_free("k")?);

    // No file may grow.
    let server = RedisServer::start()?;
    let (harness, (_folder, path)) = (Harness::at(server.url(), None), place()?);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" acquire k --save \"$1\""]);
    command.arg(env!("CARGO_BIN_EXE_syncguard")).arg(&path).env("SYNCGUARD_STORE", &harness.url);
    let done = Finished::of(&command.output()?).expect(71)?;
    ensure!(done.stderr.contains("cannot be written"), "{done:?}");
    ensure!(done.stderr.contains("the lock was released again"), "{done:?}");
    ensure!(!Path::new(&path).exists() && harness.is_free("k")?);
    Ok(())
}

#[test]
fn a_lock_that_nobody_extends_ends() -> Result<()> {
    let (harness, (_folder, path)) = (Harness::file()?, place()?);
    harness.run(&["acquire", "k", "--save", &path, "--ttl", "100ms"])?.expect(0)?;
    harness.run(&["run", "--wait", "30", "k", "--", "true"])?.expect(0)?;
    harness.run(&["extend", "--from", &path])?.expect(76)?;
    ensure!(Path::new(&path).exists());
    harness.run(&["release", "--from", &path])?.expect(76)?;
    ensure!(!Path::new(&path).exists(), "the lock is over");
    Ok(())
}
