//! Records that cannot be read, or only in a part, or that deceive their reader, and a server without room for records.

use anyhow::{Result, ensure};
use rustix::process::Signal;
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
    let exported = harness.run(&["export"])?.expect(0)?;
    ensure!(exported.stdout.contains("\nsyncguard_lock_records_corrupt 1\n"), "{exported:?}");
    ensure!(exported.stderr.contains("corrupt records: 1"), "{exported:?}");
    holder.end()?.expect(0)?;

    let to = Harness::file()?;
    let mut copy = harness.command(&["copy-fences"]);
    copy.env("SYNCGUARD_FROM", &harness.url).env("SYNCGUARD_TO", &to.url);
    let done = Finished::of(&copy.output()?).expect(70)?;
    ensure!(done.stderr.contains("not copied: 1, "), "{done:?}");
    ensure!(done.stderr.contains("may be held: 1, "), "{done:?}");
    ensure!(to.run(&["fence", "show", "sound"])?.expect(0)?.stdout == "000000000000001\n");
    ensure!(server.cli(&["GET", "syncguard:hunter7"])? == "{");
    Ok(())
}

/// A lock that cannot be released by its id is not reported as free.
#[test]
fn a_lock_whose_index_entry_is_missing_is_not_told_as_free() -> Result<()> {
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    harness.run(&["acquire", "k", "--ttl", "1h", "--json", "--holder", "x"])?.expect(0)?;
    for name in server.cli(&["KEYS", "syncguard:id:*"])?.lines() {
        server.cli(&["DEL", name])?;
    }
    let done = harness.run(&["release", "--force", "k"])?.expect(70)?;
    ensure!(done.stderr.contains("still held"), "{done:?}");
    ensure!(done.stderr.contains("ends by itself in"), "{done:?}");
    let json = harness.run(&["release", "--force", "--json", "k"])?.expect(70)?;
    ensure!(json.stdout.contains("\"released\":false"), "{json:?}");
    let done = harness.run(&["release", "--force", "--holder", "x"])?.expect(70)?;
    ensure!(done.stdout.contains("still held"), "{done:?}");
    Ok(())
}

/// Neither the release nor the new fence needs memory.
#[test]
fn a_lock_is_taken_away_on_a_full_server() -> Result<()> {
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    harness.run(&["acquire", "k", "--ttl", "1h", "--json"])?.expect(0)?;
    server.cli(&["CONFIG", "SET", "maxmemory", "100kb"])?;
    let released = harness.run(&["release", "k", "--force"])?.expect(0)?;
    ensure!(released.stdout.contains("the counter is at 000000000000002"), "{released:?}");
    harness.run(&["acquire", "k", "--ttl", "1h", "--json"])?.expect(69)?;
    ensure!(harness.run(&["status", "k"])?.expect(0)?.stdout == "free\n");
    Ok(())
}

/// Characters that change the direction of a line, are invisible, or end the line.
#[test]
fn characters_that_deceive_are_escaped() -> Result<()> {
    let harness = Harness::file()?;
    let key = "a\u{202e}b\u{200b}c\u{85}d\u{feff}e\u{7f}f\u{e0041}é";
    let holder = harness.holder(key, &[])?;
    let done = harness.run(&["ls"])?.expect(0)?;
    let shown = r" a\u{202e}b\u{200b}c\u{85}d\u{feff}e\u{7f}f\u{e0041}é";
    ensure!(done.stdout.trim_end().ends_with(shown), "{done:?}");
    for arguments in
        [&["ls", "--json"][..], &["status", "--json", key], &["fence", "show", "--json", key]]
    {
        let done = harness.run(arguments)?.expect(0)?;
        let escaped = r#""a\u202eb\u200bc\u0085d\ufeffe\u007ff\udb40\udc41é""#;
        ensure!(done.stdout.contains(escaped), "{done:?}");
        let read: serde_json::Value = serde_json::from_str(&done.stdout)?;
        ensure!(read["key"] == key, "{done:?}");
    }
    let mut watch = harness.start(&["watch", "--json"])?;
    let watched = watch.line()?;
    ensure!(watched.contains(r"a\u202eb"), "{watched}");
    // Ctrl-C is the usual end.
    watch.signal(Signal::INT)?;
    watch.ended()?.expect(0)?;
    // A program must see the key as it is.
    ensure!(harness.run(&["export"])?.expect(0)?.stdout.contains(key));
    holder.end()?.expect(0).map(drop)
}
