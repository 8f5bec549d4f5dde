//! What the guide's page "From the shell" shows, run.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use syncguard_test_services::postgres::PostgresServer;

use crate::bench::Bench;

fn shown(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../syncguard/src/guide/shell").join(name)
}

/// A folder for `PATH` that has the command in it.
fn bin() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_syncguard")).parent().map(PathBuf::from).unwrap_or_default()
}

/// A write under the lock's fence is done, one under an older fence is refused.
fn refuses_an_old_fence(
    script: &str,
    database: &str,
    balance: impl Fn() -> Result<String>,
) -> Result<()> {
    let bench = Bench::file()?;
    let script = shown(script).display().to_string();
    bench.done(&["run", "account:7", "--", "sh", &script, database])?.expect(0)?;
    ensure!(balance()? == "95");
    bench.done(&["run", "account:7", "--", "sh", &script, database])?.expect(0)?;
    ensure!(balance()? == "90");
    // The first holder wakes up late.
    let mut late = Command::new("sh");
    late.arg(&script).arg(database).env("SYNCGUARD_FENCE", "000000000000001");
    let output = late.output()?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    ensure!(
        String::from_utf8_lossy(&output.stderr).contains("a later holder was here"),
        "{output:?}"
    );
    ensure!(balance()? == "90");
    Ok(())
}

#[test]
fn a_fenced_write_with_sqlite3() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("app.db").display().to_string();
    let sqlite = |sql: &str| -> Result<String> {
        let output = Command::new("sqlite3").arg(&database).arg(sql).output();
        let output = output.context("sqlite3 is missing: apt-get install sqlite3")?;
        ensure!(output.status.success(), "{output:?}");
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    sqlite(
        "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER NOT NULL DEFAULT 0)",
    )?;
    sqlite("INSERT INTO account (id, balance) VALUES (7, 100)")?;
    refuses_an_old_fence("fenced_sqlite.sh", &database, || sqlite("SELECT balance FROM account"))
}

#[test]
fn a_fenced_write_with_psql() -> Result<()> {
    let server = PostgresServer::start()?;
    server.psql("CREATE TABLE account (id bigint PRIMARY KEY, balance bigint, fence bigint NOT NULL DEFAULT 0)")?;
    server.psql("INSERT INTO account (id, balance) VALUES (7, 100)")?;
    refuses_an_old_fence("fenced_psql.sh", &server.url(), || {
        Ok(server.psql("SELECT balance FROM account")?.trim().to_owned())
    })
}

/// systemd finds nothing wrong with the unit.
#[test]
fn the_unit_is_sound() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let unit = fs::read_to_string(shown("nightly.service"))?;
    // As it is installed here.
    let unit = unit.replace("/usr/bin/syncguard", env!("CARGO_BIN_EXE_syncguard"));
    let path = folder.path().join("nightly.service");
    fs::write(&path, &unit)?;
    let output = Command::new("systemd-analyze").arg("verify").arg(&path).output();
    let output = output.context("systemd-analyze is missing: apt-get install systemd")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let about_it: Vec<&str> = said.lines().filter(|line| line.contains("nightly")).collect();
    ensure!(output.status.success() && about_it.is_empty(), "{said}");

    // And what it starts does what it should.
    let start =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).context("a command")?;
    let bench = Bench::file()?;
    let run = |expected: i32| -> Result<()> {
        let mut words = start.split(' ');
        let mut command = Command::new(words.next().context("a program")?);
        command.args(words).env_clear().env("SYNCGUARD_STORE", &bench.url);
        let output = command.output()?;
        ensure!(output.status.code() == Some(expected), "{output:?}");
        Ok(())
    };
    run(0)?;
    // It is kept for a while: another machine's clock may be late.
    run(75)
}

/// The line as cron runs it: by `/bin/sh`, with nearly nothing in its environment.
#[test]
fn the_line_of_cron_works() -> Result<()> {
    let bench = Bench::file()?;
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    fs::write(&store, &bench.url)?;
    let crontab = fs::read_to_string(shown("nightly.cron"))?;
    let (settings, lines): (Vec<&str>, Vec<&str>) =
        crontab.lines().partition(|line| line.starts_with("SYNCGUARD_"));
    ensure!(settings == ["SYNCGUARD_STORE_FILE=/etc/syncguard/store"] && lines.len() == 1);
    let fields: Vec<&str> = lines[0].splitn(6, ' ').collect();
    ensure!(fields[..5] == ["15", "3", "*", "*", "*"] && !fields[5].contains('%'));
    for printed in ["report\n", ""] {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", fields[5].trim()]).env_clear().env("SYNCGUARD_STORE_FILE", &store);
        command.env("HOME", "/").env("PATH", format!("{}:/usr/bin:/bin", bin().display()));
        let output = command.output()?;
        // Nothing on the standard error: cron would mail it.
        ensure!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        ensure!(output.stdout == printed.as_bytes(), "{output:?}");
    }
    Ok(())
}

/// The scripts of shells that are there can be read by them.
#[test]
fn completions_can_be_read() -> Result<()> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("dist/syncguard.bash");
    let check = "source \"$0\" && complete -p syncguard";
    let output = Command::new("bash").args(["--norc", "-c", check]).arg(&script).output()?;
    ensure!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    Ok(())
}
