//! The output of the subcommands, on every store.

use anyhow::{Result, ensure};
use expect_test::expect_file;
use rustix::process::Signal;
use syncguard::Key;

use crate::harness::{Finished, Harness, StoreTest};
use crate::transcript::Transcript;

/// One file for all stores.
pub(crate) const ON_EVERY_STORE: &[StoreTest] = &[("commands", commands), ("permits", permits)];

const SHOW: &str = "echo $SYNCGUARD_KEY $SYNCGUARD_FENCE ${SYNCGUARD_SLOT-none}";

fn commands(harness: &Harness) -> Result<()> {
    let mut all = Transcript::on(harness);
    let hash = Key::new("shown:raised")?.hash_id().to_string();
    all.run(&[
        &["status", "shown:free"],
        &["status", "shown:free", "--json"],
        &["tick", "shown:free"],
        &["tick", "shown:free", "--json"],
        &["fence", "show", "shown:free"],
        &["fence", "show", "shown:free", "--json"],
        &["fence", "raise", "shown:raised", "41"],
        &["fence", "raise", "shown:raised", "000000000000007", "--json"],
        &["fence", "show", "shown:raised"],
        // From the hash of a log line to the key, which is held no more.
        &["fence", "find", &hash],
        &["fence", "find", &hash[..8]],
        &["fence", "find", &hash.to_uppercase(), "--json"],
        // As `Debug`, a log that cuts it, and `sha256sum` write it.
        &["fence", "find", &format!("Key(#{hash})")],
        &["fence", "find", &format!("#{}…", &hash[..8])],
        &["fence", "find", &format!("{hash}{}", "0".repeat(40))],
        &["fence", "find", "012345678901"],
        &["ls", "shown:"],
        &["ls", "shown:", "--json"],
        &["export", "shown:*"],
        &["release", "--force", "shown:free"],
        &["release", "--force", "shown:free", "--json"],
        &["run", "shown:raised", "--", "sh", "-c", SHOW],
        // `--` can be left out, and options of the command are the command's.
        &["run", "shown:raised", "sh", "-c", "echo out; echo problem >&2; exit 255"],
        &["run", "shown:ran", "--", "sh", "-c", "kill -9 $$"],
        &["run", "shown:ran", "--max-hold", "300ms", "--", "sleep", "1000"],
        &["run", "shown:kept", "--at-least", "1h", "--", "true"],
        &["run", "shown:kept", "--wait", "0s", "--", "true"],
        &["release", "shown:kept", "--force"],
    ])?;
    let options = ["--ttl", "1h", "--holder", "me & you", "--note", "50%"];
    let first = harness.holder("shown:first", &options)?;
    let second = harness.holder("shown:second, which has a longer name", &options[..2])?;
    all.run(&[
        &["status", "shown:first"],
        &["status", "shown:first", "--exit-code", "--reveal"],
        &["status", "shown:first", "--json"],
        &["status", "shown:first", "--json", "--reveal"],
        &["status", "shown:second, which has a longer name"],
        &["ls", "shown:"],
        &["ls", "shown:", "--json"],
        &["ls", "shown:f", "--json", "--reveal"],
        &["export", "shown:f"],
        &["run", "--no-wait", "shown:first", "--", "true"],
        &["run", "--wait", "3s", "shown:first", "--", "true"],
        &["run", "--no-wait", "--quiet", "-E", "9", "shown:first", "--", "true"],
        &["acquire", "--no-wait", "shown:first", "--json"],
        &["acquire", "-w", "1.5", "--quiet", "-E", "9", "shown:first", "--json"],
    ])?;
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
    all.run(&[
        &["release", "--force", "shown:first", "--json"],
        &["release", "--force", "shown:second, which has a longer name"],
    ])?;
    drop((first, second));
    copy(&mut all, &["copy-fences"])?;
    copy(&mut all, &["copy-fences", "--json"])?;

    let (dead, other) = ("dead \u{e9}", "dead \u{e9}!");
    for (key, label) in [("dead:1", dead), ("dead:2", dead), ("dead:other", other)] {
        harness.run(&["acquire", key, "--json", "--holder", label])?.expect(0)?;
    }
    all.run(&[
        // The label may be typed in another form of Unicode.
        &["release", "--holder", "dead e\u{301}", "--force"],
        &["release", "--holder", dead, "--force"],
        &["ls", "dead:", "--json"],
        &["release", "--holder", other, "--force", "--json"],
    ])?;
    expect_file!["snapshots/commands.txt"].assert_eq(&all.text);
    Ok(())
}

fn permits(harness: &Harness) -> Result<()> {
    let mut all = Transcript::on(harness);
    let kept: &[&str] = &["run", "-n", "kept", "--permits", "1", "--at-least", "1h", "--", "true"];
    all.run(&[
        &["run", "exports", "--permits", "1", "--", "sh", "-c", SHOW],
        // A permit has a minimum hold, too.
        kept,
        kept,
        &["release", "kept:permit:0", "--force"],
    ])?;
    let holder = |key, permits| harness.holder(key, &["--permits", permits, "--holder", "web-7"]);
    let (first, second) = (holder("exports", "2")?, holder("exports", "2")?);
    // The permits of another semaphore, and the lock of the key itself.
    let others =
        [holder("exports:permit:7", "1")?, harness.holder("exports", &["--holder", "me"])?];
    // A caller that gives a smaller number than its rivals is told, and locks nothing.
    let differ: &[&str] = &["run", "--wait", "1h", "--permits", "1", "exports", "--", "true"];
    all.run(&[
        &["status", "exports"],
        &["run", "--no-wait", "--permits", "2", "exports", "--", "true"],
        &["run", "--no-wait", "--permits", "1", "exports", "--", "true"],
        differ,
        &["ls", "exports"],
        // A larger number is not noticed, and is safe.
        &["run", "--permits", "3", "exports", "--", "true"],
    ])?;
    others.into_iter().try_for_each(|other| other.end()?.expect(0).map(drop))?;
    all.run(&[&["status", "exports", "--json", "--exit-code"]])?;
    let waiter = harness.start(&["run", "--permits", "2", "exports", "--", "echo", "mine"])?;
    first.end()?.expect(0)?;
    ensure!(waiter.ended()?.expect(0)?.stdout == "mine\n");
    second.end()?.expect(0)?;
    all.run(&[&["status", "exports"], differ])?;
    // The key of a semaphore is shorter than this one, so nothing is looked up.
    harness.run(&["status", &"k".repeat(512)])?.expect(0)?;
    expect_file!["snapshots/permits.txt"].assert_eq(&all.text);
    Ok(())
}
