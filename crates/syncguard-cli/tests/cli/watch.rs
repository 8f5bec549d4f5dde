//! The screen of `watch`: its keys, its ends, and a store that is away.

use std::fs;

use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use syncguard_test_services::redis::RedisServer;

use crate::harness::Harness;
use crate::terminal::Terminal;

/// Returns whether the terminal shows what is typed, and waits for whole lines, as `stty -a` says.
fn is_normal(screen: &str) -> bool {
    screen.contains(" icanon") && screen.contains(" echo ")
}

#[test]
fn keys_sort_and_filter() -> Result<()> {
    let harness = Harness::file()?;
    let script = "echo before; $SYNCGUARD watch -i 100ms; echo after $?; stty -a";
    let terminal = Terminal::start(&harness, script)?;
    terminal.until("no locks", |screen| screen.contains("0 locks, every 100ms, by need"))?;
    ensure!(!terminal.screen()?.contains("before"), "it has a screen of its own");
    let old = harness.holder("b:old", &[])?;
    let permit = harness.holder("exports", &["--permits", "1"])?;
    let is_before = |screen: &str, first: &str, second: &str| {
        let place = |key: &str| screen.find(&format!("\n{key}"));
        place(first).zip(place(second)).is_some_and(|(first, second)| first < second)
    };
    terminal.until("two locks", |screen| {
        is_before(screen, "b:old", "exports permit 0")
            && screen.contains("2 locks (1 permit), every 100ms, by need")
    })?;
    terminal.resize(60, 2)?;
    terminal.until("less room", |screen| screen.contains("… and 2 more"))?;
    terminal.resize(80, 24)?;
    let new = harness.holder("a:new", &[])?;
    terminal.until("what is held longest", |screen| is_before(screen, "b:old", "a:new"))?;
    terminal.keys("s")?;
    terminal.until("the order of keys", |screen| is_before(screen, "a:new", "b:old"))?;
    terminal.keys("s")?;
    terminal.until("the order of ages", |screen| {
        screen.contains("by age") && is_before(screen, "b:old", "a:new")
    })?;
    terminal.keys("/")?;
    terminal.keys("PERMIT")?;
    terminal.until("one lock", |screen| {
        screen.contains("/PERMIT_")
            && screen.contains("\nexports permit 0")
            && !screen.contains("\nb:old")
    })?;
    terminal.keys("Enter")?;
    terminal.until("the filter", |screen| screen.contains("1 with PERMIT"))?;
    terminal.keys("Escape")?;
    terminal.until("all locks", |screen| screen.contains("\nb:old"))?;
    terminal.keys("q")?;
    terminal.until("the end", |screen| {
        screen.contains("before")
            && screen.contains("after 0")
            && is_normal(screen)
            && !screen.contains("by age")
    })?;
    for holder in [old, permit, new] {
        holder.end()?.expect(0)?;
    }
    Ok(())
}

/// Ctrl-Z gives the terminal back to the shell, and `fg` continues.
#[test]
fn ctrl_z_gives_the_screen_back_for_a_while() -> Result<()> {
    let harness = Harness::file()?;
    let script = "set -m; echo before; $SYNCGUARD watch -i 100ms; echo shell $?; stty -a; read -r line; \
                  echo got $line; fg; echo after $?; stty -a";
    let terminal = Terminal::start(&harness, script)?;
    terminal.until("the screen", |screen| screen.contains("every 100ms"))?;
    terminal.keys("C-z")?;
    // 128 and SIGSTOP.
    terminal.until("the shell", |screen| {
        screen.contains("before") && screen.contains("shell 147") && is_normal(screen)
    })?;
    terminal.keys("x")?;
    terminal.keys("Enter")?;
    terminal.until("the screen again", |screen| {
        screen.contains("every 100ms") && !screen.contains("before")
    })?;
    terminal.keys("q")?;
    terminal.until("the end", |screen| {
        screen.contains("got x") && screen.contains("after 0") && is_normal(screen)
    })
}

/// Signals that ask the program to end restore the terminal, too.
#[test]
fn a_signal_ends_it_and_restores_the_terminal() -> Result<()> {
    let harness = Harness::file()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("pid").display().to_string();
    for (signal, status) in
        [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131), (Signal::INT, 0)]
    {
        let script = format!(
            "echo before; sh -c 'echo $$ > {file}; exec $SYNCGUARD watch -i 100ms'; echo after $?; stty -a"
        );
        let terminal = Terminal::start(&harness, &script)?;
        terminal.until("the screen", |screen| screen.contains("every 100ms"))?;
        let pid: i32 = fs::read_to_string(&file)?.trim().parse()?;
        if let Some(pid) = Pid::from_raw(pid) {
            kill_process(pid, signal)?;
        }
        terminal.until("the end", |screen| {
            screen.contains("before")
                && screen.contains(&format!("after {status}"))
                && is_normal(screen)
        })?;
    }
    Ok(())
}

/// A failing look keeps the last table.
#[test]
fn a_store_that_is_away_is_reported_above_the_last_table() -> Result<()> {
    let mut server = RedisServer::builder().password("hunter2").start()?;
    let harness = Harness::at(server.url(), server.password());
    let holder = harness.holder("k", &["--ttl", "1h"])?;
    let terminal = Terminal::start(&harness, "$SYNCGUARD watch -i 100ms; echo after $?")?;
    terminal.until("the lock", |screen| screen.contains("\nk ") && screen.contains("KEY"))?;
    server.pause()?;
    terminal.until("the failure", |screen| {
        screen.contains("the locks cannot be read, these are") && screen.contains("\nk ")
    })?;
    ensure!(!terminal.screen()?.contains("hunter2"), "{}", terminal.screen()?);
    // Keys work meanwhile.
    terminal.keys("s")?;
    terminal.until("the order", |screen| screen.contains("by key"))?;
    server.resume()?;
    terminal.until("the store again", |screen| {
        !screen.contains("cannot be read") && screen.contains("\nk ")
    })?;
    terminal.keys("q")?;
    terminal.until("the end", |screen| screen.contains("after 0"))?;
    drop(holder);
    ensure!(harness.run(&["ls"])?.status == 0);
    Ok(())
}
