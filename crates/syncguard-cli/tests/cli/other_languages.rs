//! Runs the programs of the guide's page "From other languages".

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use regex::Regex;
use syncguard_test_services::{install, tools};

use crate::guide::{bin, gives_back_at_a_signal};
use crate::harness::{Finished, Harness};

fn shown(name: &str) -> PathBuf {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../syncguard/src/guide");
    guide.join("other_languages").join(name)
}

/// A program of the page, on this store. The first words are what starts it.
fn prepared(harness: &Harness, starts: &[OsString], arguments: &[&str]) -> Command {
    let mut path = bin().into_os_string();
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new("env");
    command.args(starts).args(arguments).env("PATH", path);
    command.env("SYNCGUARD_STORE", &harness.url).env_remove("SYNCGUARD_STORE_FILE");
    command
}

fn run(harness: &Harness, starts: &[OsString], arguments: &[&str]) -> Result<Finished> {
    Ok(Finished::of(&prepared(harness, starts, arguments).output()?))
}

fn python(name: &str) -> Result<Vec<OsString>> {
    Ok(vec![install::require(&tools::PYTHON3)?.into(), shown(name).into()])
}

fn shell(name: &str) -> Vec<OsString> {
    vec!["sh".into(), shown(name).into()]
}

/// `steps KEY STEP…`: the lock is held during all steps, and each failure ends with its own status.
fn runs_steps_under_a_lock(starts: &[OsString]) -> Result<()> {
    let harness = Harness::file()?;
    let steps = |steps: &[&str]| run(&harness, starts, &[&["job"], steps].concat());

    let look = "syncguard status job --json && echo \"fence $FENCE\"";
    let done = steps(&[look, look])?.expect(0)?;
    let lines: Vec<&str> = done.stdout.lines().collect();
    ensure!(lines.len() == 4 && done.stderr.is_empty(), "{done:?}");
    for pair in lines.chunks(2) {
        ensure!(
            pair[0].contains("\"held\":true") && pair[1] == "fence 000000000000001",
            "{done:?}"
        );
    }
    ensure!(harness.is_free("job")?);

    // A step that fails ends the work, and the lock is free.
    let done = steps(&["exit 3", "echo more"])?.expect(3)?;
    ensure!(done.stdout.is_empty() && harness.is_free("job")?, "{done:?}");

    // No step runs without the lock, and a loss during the last step is told.
    let lose = "syncguard release job --force >&2";
    let done = steps(&[lose, "echo more"])?.expect(76)?;
    ensure!(done.stdout.is_empty(), "{done:?}");
    steps(&[lose])?.expect(76)?;

    let holder = harness.holder("job", &[])?;
    let done = steps(&["echo more"])?.expect(75)?;
    ensure!(done.stdout.is_empty() && !done.stderr.is_empty(), "{done:?}");
    holder.end()?.expect(0)?;

    let nowhere = Harness::at("no-such-store://".to_owned(), None);
    let done = run(&nowhere, starts, &["job", "echo more"])?.expect(64)?;
    ensure!(done.stdout.is_empty() && !done.stderr.contains("Traceback"), "{done:?}");

    // A key that looks like an option is a key.
    let look = "syncguard status --json -- --store=sqlite:x";
    let done = run(&harness, starts, &["--store=sqlite:x", look])?.expect(0)?;
    ensure!(done.stdout.contains("\"held\":true"), "{done:?}");

    gives_back_at_a_signal(&harness, "job", |steps| {
        prepared(&harness, starts, &[&["job"], steps].concat())
    })
}

/// `run KEY COMMAND…`: one program under the lock.
fn runs_a_program_under_a_lock(starts: &[OsString]) -> Result<()> {
    let harness = Harness::file()?;
    let run = |arguments: &[&str]| run(&harness, starts, arguments);

    let look = "syncguard status job --json && echo \"fence $SYNCGUARD_FENCE\"";
    let done = run(&["job", "sh", "-c", look])?.expect(0)?;
    ensure!(done.stdout.contains("\"held\":true"), "{done:?}");
    ensure!(done.stdout.ends_with("fence 000000000000001\n") && done.stderr.is_empty(), "{done:?}");
    run(&["job", "sh", "-c", "exit 3"])?.expect(3)?;

    let holder = harness.holder("job", &[])?;
    let done = run(&["job", "echo", "more"])?.expect(75)?;
    ensure!(done.stdout.is_empty(), "{done:?}");
    ensure!(done.stderr.contains("another process does the work"), "{done:?}");
    holder.end()?.expect(0)?;

    let lose = "syncguard release job --force >&2; exec sleep 60";
    let done = run(&["job", "sh", "-c", lose])?.expect(76)?;
    ensure!(done.stderr.contains("the lock was lost"), "{done:?}");
    ensure!(harness.is_free("job")?);

    // A key that looks like an option is a key, and the next word is the command.
    let done = run(&["--quiet", "sh", "-c", "echo \"$SYNCGUARD_KEY\""])?.expect(0)?;
    ensure!(done.stdout == "--quiet\n", "{done:?}");
    Ok(())
}

#[test]
fn steps_in_python() -> Result<()> {
    runs_steps_under_a_lock(&python("steps.py")?)
}

#[test]
fn steps_in_the_shell() -> Result<()> {
    runs_steps_under_a_lock(&shell("steps.sh"))
}

#[test]
fn one_program_in_python() -> Result<()> {
    runs_a_program_under_a_lock(&python("run.py")?)
}

#[test]
fn one_program_in_the_shell() -> Result<()> {
    runs_a_program_under_a_lock(&shell("run.sh"))
}

/// The calls of `syncguard` in a program, each as its quoted arguments in their order.
fn calls(name: &str, call: &str) -> Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(shown(name))?;
    let call = Regex::new(call)?;
    let quoted = Regex::new("\"([^\"]+)\"")?;
    let words = |call: &str| quoted.captures_iter(call).map(|word| word[1].to_owned()).collect();
    Ok(call.captures_iter(&text).map(|found| words(&found[1])).collect())
}

/// Go is too large to be installed for one test. So its program is run where Go is, and elsewhere only its calls are
/// compared with those of the program in Python.
#[test]
fn steps_in_go() -> Result<()> {
    let mut go = calls("steps.go", r#"syncguard\((?:lock|""), (".*)\)"#)?;
    let mut python = calls("steps.py", r#"syncguard\((".*)\)"#)?;
    ensure!(go.len() == 3, "{go:?}");
    go.sort();
    python.sort();
    ensure!(go == python, "{go:?} {python:?}");

    if Command::new("go").arg("version").output().is_err() {
        println!("go is not on PATH: steps.go was compared with steps.py, and not run");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("steps");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(shown("steps.go"));
    build.env("GOCACHE", folder.path().join("cache"));
    Finished::of(&build.output()?).expect(0)?;
    runs_steps_under_a_lock(&[program.into()])
}
