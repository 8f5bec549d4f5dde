//! Odd records that can still be read.

use anyhow::{Result, ensure};
use syncguard_test_services::redis::RedisServer;

use crate::harness::Harness;

/// A lock that cannot be released by its id is not reported as free.
#[test]
fn a_lock_whose_index_entry_is_missing_is_not_told_as_free() -> Result<()> {
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    harness.run(&["acquire", "k", "--ttl", "1h", "--json"])?.expect(0)?;
    for name in server.cli(&["KEYS", "syncguard:id:*"])?.lines() {
        server.cli(&["DEL", name])?;
    }
    let done = harness.run(&["release", "--force", "k"])?.expect(70)?;
    ensure!(done.stderr.contains("still held"), "{done:?}");
    ensure!(done.stderr.contains("ends by itself in"), "{done:?}");
    let json = harness.run(&["release", "--force", "--json", "k"])?.expect(70)?;
    ensure!(json.stdout.contains("\"released\":false"), "{json:?}");
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
    let mut watch = harness.start(&["watch", "--json", "-i", "100ms"])?;
    let line = watch.line()?;
    ensure!(line.contains(r"a\u202eb"), "{line}");
    drop((watch, holder));
    Ok(())
}
