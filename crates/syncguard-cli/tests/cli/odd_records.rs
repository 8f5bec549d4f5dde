//! Records that cannot be read, or only in a part, or that deceive their reader, and a server without room for records.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use rustix::process::Signal;
use serde_json::json;
use syncguard::Key;
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_test_services::redis::RedisServer;

use crate::harness::{Finished, Harness};
use crate::terminal::on_terminal;

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

    // A counter beyond the end, which no release of this library writes, is at its end on the new store.
    server.cli(&["SET", "syncguard:fence:syncguard:beyond", "900000000000005"])?;
    let to = Harness::file()?;
    let mut copy = harness.command(&["copy-fences"]);
    copy.env("SYNCGUARD_FROM", &harness.url).env("SYNCGUARD_TO", &to.url);
    let done = Finished::of(&copy.output()?).expect(70)?;
    ensure!(done.stderr.contains("not copied: 1, "), "{done:?}");
    ensure!(done.stderr.contains("may be held: 1, "), "{done:?}");
    ensure!(to.run(&["fence", "show", "sound"])?.expect(0)?.stdout == "000000000000001\n");
    ensure!(to.run(&["fence", "show", "beyond"])?.expect(0)?.stdout == "900000000000000\n");
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

/// A record of another client, whose texts would clear the screen, ring, set a title and turn lines around.
#[test]
fn a_terminal_gets_no_character_of_a_record_that_it_obeys() -> Result<()> {
    const EVIL: &str = "\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\u{202e}e\r\nvil\u{200b}\u{2028}\u{e0041}";
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    for (key, lock_id, holder) in [(EVIL, "A", EVIL), ("plain", "B", EVIL), ("named", "C", "ok")] {
        let lock_id = format!("{lock_id}{}", "A".repeat(21));
        let record = json!({
            "lockId": lock_id, "expiresAtMs": now + 600_000, "acquiredAtMs": now - 1000, "key": key,
            "fence": "000000000000007", "holder": holder, "note": EVIL,
        });
        let name = format!("syncguard:{key}");
        server.cli(&["SET", &name, &record.to_string(), "PX", "601000"])?;
        server.cli(&["SET", &format!("syncguard:id:{lock_id}"), &name, "PX", "601000"])?;
        server.cli(&["SET", &format!("syncguard:fence:{name}"), "000000000000007"])?;
    }
    let hash = Key::new(EVIL)?.hash_id().to_string();
    let tick = format!("{EVIL}=* * * * *");
    let mut shown = 0;
    for arguments in [
        &["ls"][..],
        &["ls", "--json", "--reveal"],
        &["ls", "--longer-than", "100ms"],
        &["status", EVIL],
        &["status", "plain", "--json"],
        &["tick", EVIL, "--tick", "* * * * *"],
        &["tick", "plain", "--json"],
        &["export"],
        &["export", "--tick", &tick],
        &["run", "-n", EVIL, "--", "true"],
        &["run", "-w", "700ms", "plain", "--", "true"],
        &["acquire", "-n", "plain", "--json"],
        &["-vv", "acquire", "-w", "700ms", EVIL, "--json"],
        &["fence", "find", &hash],
        &["fence", "find", &hash, "--json"],
        &["fence", "show", EVIL, "--json"],
        &["watch", "--json", "-i", "bad"],
        &["release", "--holder", "ok", "--force", "--yes"],
        &["release", EVIL, "--force", "--yes"],
        &["release", "plain", "--force", "--yes", "--json"],
    ] {
        let printed = on_terminal(harness.command(arguments))?;
        let text = String::from_utf8(printed)?;
        // Lines of a terminal end with both characters, and a line that is drawn anew begins with the first one.
        let obeyed = [
            "\u{1b}[2J",
            "\u{1b}]",
            "\u{7}",
            "\u{9b}",
            "\u{202e}",
            "\u{200b}",
            "\u{2028}",
            "\u{e0041}",
            "e\r\nvil",
        ];
        ensure!(!obeyed.iter().any(|part| text.contains(part)), "{arguments:?}: {text:?}");
        shown += usize::from(text.contains(r"\u{1b}[2J") || text.contains(r"\u001b[2J"));
    }
    ensure!(shown == 8, "{shown} of them show a text of the record");
    Ok(())
}

/// The counter of a key was deleted, so the store has lost data. This is told to those who want errors only, too.
#[test]
fn an_error_in_the_log_of_the_library_is_always_told() -> Result<()> {
    let server = EtcdCluster::start(1)?;
    let harness = Harness::at(format!("{}/p", server.url()), None);
    harness.run(&["acquire", "k", "--json", "--ttl", "100ms"])?.expect(0)?;
    for arguments in [
        &["run", "k", "--", "true"][..],
        &["--quiet", "run", "k", "--", "true"],
        &["acquire", "k", "--json", "--ttl", "100ms", "-q"],
        &["acquire", "k", "--json", "--ttl", "100ms", "-v"],
    ] {
        // The record of the lock is left, and `p/f/k` is the counter.
        server.post(0, "kv/deleterange", r#"{"key":"cC9mL2s="}"#)?;
        let done = harness.run(arguments)?.expect(0)?;
        let says = "syncguard: error: the fence counter of this key is behind its last lock: was it deleted?";
        ensure!(done.stderr.lines().any(|line| line.starts_with(says)), "{arguments:?}: {done:?}");
        if arguments[0] != "acquire" {
            harness.run(&["acquire", "k", "--json", "--ttl", "100ms"])?.expect(0)?;
        }
    }
    Ok(())
}
