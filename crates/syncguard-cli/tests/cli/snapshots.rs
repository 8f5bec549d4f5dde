//! The output of all subcommands, as files. `UPDATE_EXPECT=1` writes them anew.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use expect_test::{ExpectFile, expect_file};
use regex::Regex;
use rustix::process::Signal;
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::{AppendOnly, RedisServer};

use crate::emulator::emulator_url;
use crate::harness::{Finished, Harness, StoreTest};
use crate::schema::Schema;

/// One file for all stores.
pub(crate) const ON_EVERY_STORE: &[StoreTest] = &[("snapshots", commands)];

#[derive(Default)]
struct Transcript {
    text: String,
}

impl Transcript {
    fn run(&mut self, harness: &Harness, arguments: &[&str]) -> Result<()> {
        let done = harness.run(arguments)?;
        self.add(arguments, &done)
    }

    /// Adds a result, and checks its JSON against the schema.
    fn add(&mut self, arguments: &[&str], done: &Finished) -> Result<()> {
        let Finished { status, stdout, stderr } = done;
        if arguments.contains(&"--json") {
            Schema::of(arguments[0])?.check_lines(stdout)?;
        }
        let (typed, printed) = (arguments.join(" "), normal(&format!("{stdout}{stderr}"))?);
        writeln!(self.text, "$ syncguard {typed}\n{printed}[{status}]\n")?;
        Ok(())
    }
}

/// Replaces times, lock ids and measurements, which differ each time, by words.
fn normal(text: &str) -> Result<String> {
    let mut text = text.to_owned();
    for (pattern, word) in [
        // The default label of a holder: the host and the process id.
        (r#""holder":"[^\s/"]+/\d+""#, r#""holder":"<holder>""#),
        (r"(by|for|is) [^\s/]+/\d+\b", "$1 <holder>"),
        (r"(?m)^[^\s/]+/\d+ +(\d{15}) ", "<holder>      $1 "),
        (r"(?m)^HOLDER +", "HOLDER        "),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<utc>"),
        (r"\b\d{13}\b", "<time>"),
        (r#"("lockId":"|lock id   )[\w-]{22}"#, "$1<lock id>"),
        (r#"("lockIdHash":"|by )[0-9a-f]{24}"#, "$1<holder>"),
        (r"\b[0-9a-f]{12}\b", "<holder>    "),
        (r"p50 [\d.]+ ms, p99 [\d.]+ ms", "p50 <n> ms, p99 <n> ms"),
        (r#"("p\d\dMicros":)\d+"#, "$1<n>"),
        (r"clock is \d+ ms (ahead of|behind)", "clock is <n> ms off"),
        (r#"(old store: |"counters":)\d+"#, "$1<n>"),
        (r"\b\d+(ms|s|m|h)( \d+(ms|s|m))?\b", "<duration>"),
        (r"(<duration>|AGE|LEFT) {2,}", "$1  "),
    ] {
        text = Regex::new(pattern)?.replace_all(&text, word).into_owned();
    }
    Ok(text)
}

fn commands(harness: &Harness) -> Result<()> {
    let mut all = Transcript::default();
    let all_of = |all: &mut Transcript, rows: &[&[&str]]| {
        rows.iter().try_for_each(|arguments| all.run(harness, arguments))
    };
    all_of(
        &mut all,
        &[
            &["status", "shown:free"],
            &["status", "shown:free", "--json"],
            &["tick", "shown:free"],
            &["tick", "shown:free", "--json"],
            &["fence", "show", "shown:free"],
            &["fence", "show", "shown:free", "--json"],
            &["fence", "raise", "shown:raised", "41"],
            &["fence", "raise", "shown:raised", "7", "--json"],
            &["fence", "show", "shown:raised"],
            &["ls", "shown:"],
            &["ls", "shown:", "--json"],
            &["release", "--force", "shown:free"],
            &["release", "--force", "shown:free", "--json"],
        ],
    )?;
    let first = harness.holder("shown:first", &["--ttl", "1h"])?;
    let second = harness.holder("shown:second, which has a longer name", &["--ttl", "1h"])?;
    all_of(
        &mut all,
        &[
            &["status", "shown:first"],
            &["status", "shown:first", "--exit-code", "--reveal"],
            &["status", "shown:first", "--json"],
            &["status", "shown:first", "--json", "--reveal"],
            &["ls", "shown:"],
            &["ls", "shown:", "--json"],
            &["ls", "shown:f", "--json", "--reveal"],
            &["run", "--no-wait", "shown:first", "--", "true"],
            &["run", "--wait", "3s", "shown:first", "--", "true"],
            &["run", "--no-wait", "--quiet", "-E", "9", "shown:first", "--", "true"],
        ],
    )?;
    let arguments = ["watch", "shown:first", "--json"];
    let mut watch = harness.start(&arguments)?;
    let line = watch.line()?;
    watch.signal(Signal::TERM)?;
    let mut done = watch.ended()?;
    done.stdout = format!("{line}\n{}", done.stdout);
    all.add(&arguments, &done)?;

    let to = Harness::file()?;
    let copy = |all: &mut Transcript, arguments: &[&str]| -> Result<()> {
        let mut command = harness.command(arguments);
        command.env("SYNCGUARD_FROM", &harness.url).env("SYNCGUARD_TO", &to.url);
        all.add(arguments, &Finished::of(&command.output()?))
    };
    copy(&mut all, &["copy-fences"])?;
    all_of(
        &mut all,
        &[
            &["release", "--force", "shown:first", "--json"],
            &["release", "--force", "shown:second, which has a longer name"],
        ],
    )?;
    drop((first, second));
    copy(&mut all, &["copy-fences"])?;
    copy(&mut all, &["copy-fences", "--json"])?;
    expect_file!["snapshots/commands.txt"].assert_eq(&all.text);
    Ok(())
}

fn doctor(url: String, expected: &ExpectFile) -> Result<()> {
    let (harness, mut both) = (Harness::at(url, None), Transcript::default());
    both.run(&harness, &["doctor", "--rounds", "3"])?;
    both.run(&harness, &["doctor", "--rounds", "3", "--json"])?;
    expected.assert_eq(&both.text);
    Ok(())
}

#[test]
fn doctor_of_redis() -> Result<()> {
    let server = RedisServer::builder().append_only(AppendOnly::EverySecond).start()?;
    doctor(server.url(), &expect_file!["snapshots/doctor_redis.txt"])
}

#[test]
fn doctor_of_postgres() -> Result<()> {
    let server = PostgresServer::start()?;
    let url = format!("{}?setup_schema=true", server.url());
    doctor(url, &expect_file!["snapshots/doctor_postgres.txt"])
}

#[test]
fn doctor_of_firestore() -> Result<()> {
    let server = FirestoreEmulator::start()?;
    doctor(emulator_url(&server)?, &expect_file!["snapshots/doctor_firestore.txt"])
}

/// On a file system in memory, since any other may be that of a container.
#[test]
fn doctor_of_sqlite() -> Result<()> {
    let folder = tempfile::tempdir_in("/dev/shm").context("/dev/shm is missing")?;
    let url = format!("sqlite://{}/locks.db", folder.path().display());
    doctor(url, &expect_file!["snapshots/doctor_sqlite.txt"])
}
