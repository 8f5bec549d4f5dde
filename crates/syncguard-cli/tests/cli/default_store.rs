//! Which store the command uses if none is named: a file of this user, which is told, and no file for a look.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Finished, Harness};

/// The words of a message about the default store.
const ALONE: &str = "this machine alone";

const TICK: [&str; 8] =
    ["run", "--tick", "0 0 29 2 *", "--max-lateness", "9years", "job", "--", "true"];

/// A user who has named no store.
struct User {
    home: TempDir,
    harness: Harness,
}

impl User {
    fn new() -> Result<Self> {
        Ok(Self { home: tempfile::tempdir()?, harness: Harness::file()? })
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.harness.command(arguments);
        command.env_remove("SYNCGUARD_STORE").env_remove("XDG_STATE_HOME");
        command.env("HOME", self.home.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<Finished> {
        Ok(Finished::of(&self.command(arguments).output()?))
    }

    fn has_files(&self) -> Result<bool> {
        Ok(fs::read_dir(self.home.path())?.next().is_some())
    }
}

/// A missing secret, as in the CI of a fork, must not lead to locks of one machine.
#[test]
fn a_store_that_is_empty_is_an_error() -> Result<()> {
    let user = User::new()?;
    let empty = user.harness.url.trim_start_matches("sqlite://").to_owned() + ".empty";
    fs::write(&empty, "\u{feff}\n")?;
    let run = ["run", "k", "--", "true"];
    for (name, value) in [
        ("SYNCGUARD_STORE", ""),
        ("SYNCGUARD_STORE", " \t\n"),
        ("SYNCGUARD_STORE_FILE", ""),
        ("SYNCGUARD_STORE_FILE", empty.as_str()),
    ] {
        let done = Finished::of(&user.command(&run).env(name, value).output()?).expect(64)?;
        ensure!(done.stderr.contains("is empty"), "{name}={value:?}: {done:?}");
    }
    for arguments in [
        &["--store", "", "status", "k"][..],
        &["--store", " ", "run", "k", "--", "true"],
        &["--store-file", &empty, "ls"],
        &["doctor", ""],
    ] {
        let done = user.run(arguments)?.expect(64)?;
        ensure!(done.stderr.contains("is empty"), "{arguments:?}: {done:?}");
    }
    user.run(&["--store-file", "", "ls"])?.expect(64)?;
    ensure!(!user.has_files()?);
    Ok(())
}

#[test]
fn a_look_names_the_default_store_and_makes_no_file() -> Result<()> {
    let user = User::new()?;
    let from = user.harness.url.trim_start_matches("sqlite://").to_owned() + ".lock";
    user.harness.run(&["acquire", "k", "--save", &from])?.expect(0)?;
    let looks: [(&[&str], i32); 14] = [
        (&["status", "k"], 0),
        (&["status", "k", "--json"], 0),
        (&["ls"], 0),
        (&["ls", "--json", "--longer-than", "1s"], 0),
        (&["export"], 0),
        (&["fence", "show", "k", "--json"], 0),
        (&["tick", "k", "--json"], 0),
        (&["release", "k", "--force"], 0),
        (&["release", "k", "--force", "--json"], 0),
        (&["release", "--holder", "a", "--force"], 82),
        (&["extend", "--from", &from], 64),
        (&["setup"], 0),
        (&["doctor"], 0),
        (&["doctor", "--json"], 0),
    ];
    // Before the first use, and after it.
    for is_used in [false, true] {
        for (arguments, status) in looks {
            let done = user.run(arguments)?.expect(status)?;
            let says = done.stderr.matches(ALONE).count();
            ensure!(says == 1 && done.stderr.contains("locks.db"), "{arguments:?}: {done:?}");
            if arguments.contains(&"--json") {
                done.stdout
                    .lines()
                    .try_for_each(|line| serde_json::from_str::<Value>(line).map(drop))?;
            }
            ensure!(user.has_files()? == is_used, "{arguments:?} makes a file");
            let quiet = user.run(&[&["--quiet"], arguments].concat())?.expect(status)?;
            ensure!(!quiet.stderr.contains(ALONE), "{quiet:?}");
        }
        let examined = user.run(&["doctor"])?.stdout;
        ensure!(examined.contains("[yellow] store: ") != is_used, "{examined}");
        user.run(&["run", "k", "--", "true"])?.expect(0)?;
    }
    // A lock is as free as its file is missing, also in a file that was named.
    let named = format!("sqlite://{}/named.db", user.home.path().display());
    ensure!(user.run(&["--store", &named, "status", "k"])?.expect(0)?.stdout == "free\n");
    ensure!(!user.home.path().join("named.db").exists());
    let copied = user.run(&["copy-fences", "--from", &named, "--to", &user.harness.url])?;
    ensure!(copied.status == 64 && copied.stderr.contains("does not exist"), "{copied:?}");
    Ok(())
}

#[test]
fn the_first_use_of_the_default_store_is_told() -> Result<()> {
    let lock: [&str; 4] = ["run", "k", "--", "true"];
    let quiet = |arguments: &[&'static str]| [&["--quiet"][..], arguments].concat();
    for (arguments, tells_again) in [
        (lock.to_vec(), false),
        (quiet(&lock), false),
        (vec!["acquire", "k", "--json", "--ttl", "1s"], false),
        (TICK.to_vec(), true),
        // As in a crontab: one mail, and not one for each tick.
        (quiet(&TICK), false),
    ] {
        let user = User::new()?;
        let first = user.run(&arguments)?.expect(0)?;
        ensure!(first.stderr.matches(ALONE).count() == 1, "{arguments:?}: {first:?}");
        let again = user.run(&arguments)?;
        ensure!(again.stderr.contains(ALONE) == tells_again, "{arguments:?}: {again:?}");
    }
    let user = User::new()?;
    user.run(&lock)?.expect(0)?;
    let ticks = ["run", "--loop", "--tick", "* * * * * *", "job", "--", "echo", "ran"];
    let mut looping = Harness::spawn(user.command(&ticks))?;
    ensure!(looping.line()? == "ran");
    looping.signal(Signal::TERM)?;
    let ended = looping.ended()?.expect(0)?;
    ensure!(ended.stderr.matches(ALONE).count() == 1, "{ended:?}");
    // A store that was named needs no word.
    let named =
        Finished::of(&user.command(&TICK).env("SYNCGUARD_STORE", &user.harness.url).output()?);
    ensure!(named.status == 0 && named.stderr.is_empty(), "{named:?}");
    Ok(())
}

/// The file is one that no other user can read.
#[test]
fn the_default_store_is_a_file_of_the_user() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let user = User::new()?;
    let home = user.home.path();
    for (name, value, folder) in [
        ("HOME", home.to_owned(), home.join(".local/state")),
        ("XDG_STATE_HOME", home.join("state #1?"), home.join("state #1?")),
    ] {
        let output = user.command(&["run", "k", "--", "true"]).env(name, value).output()?;
        ensure!(output.status.success(), "{output:?}");
        let path = folder.join("syncguard/locks.db");
        ensure!(fs::metadata(&path)?.permissions().mode() & 0o777 == 0o600);
        ensure!(fs::metadata(folder.join("syncguard"))?.permissions().mode() & 0o777 == 0o700);
    }
    Ok(())
}

/// Cron does not know a variable that a login sets, so one user could have two default stores.
#[test]
fn two_default_stores_of_one_user_are_told() -> Result<()> {
    let user = User::new()?;
    let elsewhere = user.home.path().join("elsewhere");
    let run = |state: Option<&Path>, more: &[&str]| -> Result<String> {
        let mut command = user.command(&[more, &["run", "k", "--", "true"]].concat());
        command.envs(state.map(|state| ("XDG_STATE_HOME", state)));
        Ok(Finished::of(&command.output()?).expect(0)?.stderr)
    };
    let two = "two default stores";
    ensure!(!run(Some(&elsewhere), &[])?.contains(two), "there is one");
    ensure!(!run(None, &[])?.contains(two), "the other one is not known without the variable");
    let said = run(Some(&elsewhere), &[])?;
    for part in [two, "elsewhere/syncguard/locks.db", ".local/state/syncguard/locks.db", "--store"]
    {
        ensure!(said.contains(part), "{part}: {said}");
    }
    ensure!(run(Some(&elsewhere), &["--quiet"])?.is_empty());
    ensure!(run(Some(&elsewhere), &["--store", &user.harness.url])?.is_empty(), "it was named");
    // Two paths to one file are one store.
    let link = user.home.path().join("link");
    std::os::unix::fs::symlink(user.home.path().join(".local/state"), &link)?;
    for same in [user.home.path().join(".local/state"), link] {
        ensure!(run(Some(&same), &[])?.is_empty(), "{same:?} is one store");
    }
    Ok(())
}

/// A URL without a folder names another file in each folder.
#[test]
fn a_new_file_whose_url_names_no_folder_is_told() -> Result<()> {
    let user = User::new()?;
    let run = |arguments: &[&str], variable: (&str, &str)| -> Result<Finished> {
        let mut command = user.command(arguments);
        Ok(Finished::of(
            &command.current_dir(user.home.path()).env(variable.0, variable.1).output()?,
        ))
    };
    fs::write(user.home.path().join("url"), "sqlite:by-file.db")?;
    let run_true = ["--quiet", "run", "k", "--", "true"];
    let copy = ["copy-fences", "--from", &user.harness.url];
    user.harness.run(&run_true)?.expect(0)?;
    for (arguments, variable, file) in [
        (&run_true[..], ("SYNCGUARD_STORE", "sqlite:a%20b.db"), "a b.db"),
        (&run_true, ("SYNCGUARD_STORE_FILE", "url"), "by-file.db"),
        (&["acquire", "-n", "k", "--json", "--store", "sqlite:c.db"], ("A", "b"), "c.db"),
        (&copy, ("SYNCGUARD_TO", "sqlite:d.db"), "d.db"),
    ] {
        ensure!(run(&["status", "k"], variable)?.stderr.matches("is a new file").count() == 0);
        let first = run(arguments, variable)?.expect(0)?;
        let path = user.home.path().join(file);
        let says = format!("the store is a new file, {}:", path.display());
        ensure!(first.stderr.matches(&says).count() == 1 && path.exists(), "{first:?}");
        ensure!(
            first.stderr.contains(&format!("{} is the same", file.replace(' ', "%20"))),
            "{first:?}"
        );
        ensure!(!run(arguments, variable)?.stderr.contains("a new file"), "{arguments:?}");
    }
    let whole = format!("sqlite://{}/whole.db", user.home.path().display());
    ensure!(run(&run_true, ("SYNCGUARD_STORE", &whole))?.expect(0)?.stderr.is_empty());
    Ok(())
}

/// The command may be in another folder.
#[test]
fn a_command_gets_the_same_file_in_every_folder() -> Result<()> {
    let user = User::new()?;
    let here = user.home.path();
    fs::write(here.join("url"), format!("sqlite://{}/locks.db", here.display()))?;
    let program = env!("CARGO_BIN_EXE_syncguard");
    let line = format!("cd / && {program} status k --exit-code");
    for (name, value) in [("SYNCGUARD_STORE", "sqlite:locks.db"), ("SYNCGUARD_STORE_FILE", "url")] {
        let mut command = user.command(&["run", "k", "--", "sh", "-c", &line]);
        command.current_dir(here).env(name, value);
        Finished::of(&command.output()?).expect(75)?;
    }
    Ok(())
}
