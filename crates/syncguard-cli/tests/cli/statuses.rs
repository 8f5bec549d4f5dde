//! Exit statuses that need more than a bad option or a held lock.

use std::fs::OpenOptions;

use anyhow::{Result, ensure};
use syncguard_test_services::redis::RedisServer;

use crate::harness::{Finished, Harness};

/// 70: a corrupt record. It hides no other lock, and stays as it is.
#[test]
fn a_record_that_makes_no_sense() -> Result<()> {
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    server.cli(&["SET", "syncguard:hunter7", "{"])?;
    server.cli(&["SET", "syncguard:fence:syncguard:hunter7", "x"])?;
    let holder = harness.holder("sound", &[])?;
    for arguments in [
        &["status", "hunter7"][..],
        &["run", "hunter7", "--", "true"],
        &["release", "--force", "hunter7"],
        &["fence", "show", "hunter7"],
        &["fence", "raise", "hunter7", "7"],
        &["ls"],
    ] {
        let done = harness.run(arguments)?.expect(70)?;
        ensure!(!done.stderr.contains("hunter7"), "{done:?}");
    }
    let listed = harness.run(&["ls"])?;
    ensure!(listed.stdout.contains("sound"), "{listed:?}");
    ensure!(listed.stderr.contains("corrupt records: 1"), "{listed:?}");
    holder.end()?.expect(0)?;

    let to = Harness::file()?;
    let mut copy = harness.command(&["copy-fences"]);
    copy.env("SYNCGUARD_FROM", &harness.url).env("SYNCGUARD_TO", &to.url);
    let done = Finished::of(&copy.output()?).expect(70)?;
    ensure!(done.stderr.contains("not copied: 1"), "{done:?}");
    ensure!(to.run(&["fence", "show", "sound"])?.expect(0)?.stdout == "000000000000001\n");
    ensure!(server.cli(&["GET", "syncguard:hunter7"])? == "{");
    Ok(())
}

/// 71: the system refuses something.
#[test]
fn a_system_that_refuses() -> Result<()> {
    let harness = Harness::file()?;
    // The output device is full.
    let mut full = harness.command(&["status", "k"]);
    full.stdout(OpenOptions::new().write(true).open("/dev/full")?);
    let done = Finished::of(&full.output()?).expect(71)?;
    ensure!(done.stderr.contains("the output cannot be written"), "{done:?}");
    Ok(())
}
