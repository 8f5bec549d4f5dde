//! The line for a waiter: the holder for whom it waits.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use crate::harness::Harness;

const HOLDER: [&str; 4] = ["--holder", "web-7", "--note", "nightly"];

#[test]
fn a_waiter_without_a_terminal_is_told_once_for_whom_it_waits() -> Result<()> {
    let harness = Harness::file()?;
    for options in [&["run", "hidden-key", "--", "true"][..], &["acquire", "hidden-key", "--json"]]
    {
        let holder = harness.holder("hidden-key", &HOLDER)?;
        let mut waiter = harness.command(options);
        let mut waiter = waiter.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(waiter.stderr.take().context("a pipe")?).lines();
        let line = lines.next().context("a line")??;
        let begins = "syncguard: waiting for web-7 (nightly), who has had the lock for ";
        ensure!(line.starts_with(begins) && line.contains("; free in "), "{line}");
        ensure!(line.contains(" unless it is renewed (") && !line.contains("hidden-key"), "{line}");
        holder.end()?.expect(0)?;
        ensure!(waiter.wait()?.success());
        ensure!(lines.next().is_none(), "the line comes again after a minute");
    }
    Ok(())
}

#[test]
fn who_gets_no_lock_is_told_who_has_it() -> Result<()> {
    let harness = Harness::file()?;
    let holder = harness.holder("hidden-key", &HOLDER)?;
    for wait in [&["--no-wait"][..], &["--wait", "0.1"]] {
        for (command, rest) in [("run", &["--", "true"][..]), ("acquire", &["--json"])] {
            let arguments =
                |quiet: &[&'static str]| [&[command], quiet, wait, &["hidden-key"], rest].concat();
            let done = harness.run(&arguments(&[]))?.expect(75)?;
            let says = ". The holder is web-7 (nightly), who has had the lock for ";
            ensure!(done.stderr.contains(says) && done.stderr.lines().count() == 1, "{done:?}");
            ensure!(!done.stderr.contains("hidden-key"), "{done:?}");
            let quiet = harness.run(&arguments(&["--quiet"]))?.expect(75)?;
            ensure!(quiet.stderr.is_empty(), "{quiet:?}");
        }
    }
    holder.end()?.expect(0).map(drop)
}
