//! `ls`, `watch` and `fence`.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use syncguard::Key;

use crate::harness::{Harness, StoreTest};
use crate::schema::Schema;
use crate::terminal::Terminal;

pub(crate) const ON_EVERY_STORE: &[StoreTest] = &[("ls", ls), ("fence", fence), ("watch", watch)];

/// The tables and the lines are compared elsewhere, with a prefix.
fn ls(harness: &Harness) -> Result<()> {
    let holders = ["ls:a", "other"].map(|key| harness.holder(key, &[]));
    let done = harness.run(&["ls", "--json"])?.expect(0)?;
    ensure!(done.stdout.lines().count() == 2, "{done:?}");
    ensure!(done.stdout.contains("\"key\":\"other\""), "{done:?}");
    for holder in holders {
        holder?.end()?.expect(0)?;
    }
    let done = harness.run(&["ls"])?.expect(0)?;
    ensure!(done.stdout.is_empty() && done.stderr == "syncguard: no lock is held\n", "{done:?}");
    Ok(())
}

fn fence(harness: &Harness) -> Result<()> {
    // A counter is never lowered.
    for raised in ["41", "000000000000007"] {
        let done = harness.run(&["fence", "raise", "fence", raised])?.expect(0)?;
        ensure!(done.stdout == "000000000000041\n", "{done:?}");
    }
    let show = ["run", "fence", "--", "sh", "-c", "echo $SYNCGUARD_FENCE"];
    ensure!(harness.run(&show)?.expect(0)?.stdout == "000000000000042\n");
    for bad in ["-1", "x", "900000000000001", "9999999999999999"] {
        harness.run(&["fence", "raise", "fence", "--", bad])?.expect(64)?;
    }
    // From the hash of a log line to the key, which is held no more.
    let hash = Key::new("fence")?.hash_id().to_string();
    for text in [&hash[..], &hash[..8], &hash.to_uppercase()] {
        ensure!(harness.run(&["fence", "find", text])?.expect(0)?.stdout == "fence\n");
    }
    let json = harness.run(&["fence", "find", &hash, "--json"])?.expect(0)?.stdout;
    Schema::of("fence")?.check_lines(&json)?;
    ensure!(json.contains(&format!("\"keyHash\":\"{hash}\"")), "{json}");
    let none = harness.run(&["fence", "find", "012345678901"])?.expect(0)?.stdout;
    ensure!(none.starts_with("none: "), "{none}");
    for bad in ["1234567", "not-a-hash", "0123456789012345678901234"] {
        harness.run(&["fence", "find", bad])?.expect(64)?;
    }
    Ok(())
}

/// In a terminal, `watch` redraws in place, follows the size, and gives the screen back.
fn watch(harness: &Harness) -> Result<()> {
    let no_terminal = harness.run(&["watch"])?.expect(64)?;
    ensure!(no_terminal.stderr.contains("watch --json"), "{no_terminal:?}");

    let terminal =
        Terminal::start(harness, "echo before; $SYNCGUARD watch -i 100ms; echo after $?")?;
    terminal.until("0 locks", |screen| screen.contains("0 locks, every 100ms, by key"))?;
    let holder = harness.holder("watch:this", &[])?;
    terminal.until("the lock", |screen| {
        screen.contains("1 lock,") && screen.contains("\nwatch:this") && screen.contains("KEY")
    })?;
    ensure!(!terminal.screen()?.contains("before"), "it has a screen of its own");
    if let Some(password) = &harness.password {
        ensure!(!terminal.screen()?.contains(password), "{}", terminal.screen()?);
    }
    terminal.resize(60, 2)?;
    terminal.until("less room", |screen| screen.contains("… and 1 more"))?;
    terminal.resize(80, 24)?;
    terminal.until("more room", |screen| screen.contains("\nwatch:this"))?;
    holder.end()?.expect(0)?;
    terminal.until("no lock", |screen| {
        screen.contains("0 locks") && !screen.contains("\nwatch:this")
    })?;
    terminal.keys("C-c")?;
    terminal.until("the old screen", |screen| {
        screen.contains("before") && screen.contains("after 0") && !screen.contains("every 100ms")
    })?;

    let mut lines = harness.start(&["watch", "--json", "-i", "100ms"])?;
    ensure!(lines.line()? == "{\"corrupt\":0,\"locks\":[]}");
    lines.signal(Signal::TERM)?;
    lines.ended()?.expect(143)?;
    Ok(())
}
