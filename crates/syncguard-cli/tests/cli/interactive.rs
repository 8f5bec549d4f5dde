//! `syncguard run` in a terminal: Ctrl-C, Ctrl-Z, input, and the line of a waiter.

use anyhow::{Result, ensure};

use crate::harness::Harness;
use crate::terminal::Terminal;

#[test]
fn ctrl_c_is_for_the_command() -> Result<()> {
    let harness = Harness::file()?;
    let script = "$SYNCGUARD run k -- sh -c 'trap \"echo caught; exit 4\" INT; echo ready; while :; do sleep 0.1; done'; \
                  echo status $?";
    let terminal = Terminal::start(&harness, script)?;
    terminal.until("the command", |screen| screen.contains("ready"))?;
    terminal.keys("C-c")?;
    terminal.until("its end", |screen| screen.contains("caught") && screen.contains("status 4"))?;
    ensure!(harness.is_free("k")?);
    Ok(())
}

/// Ctrl-Z stops `syncguard` and the command, the shell continues, and `fg` continues both.
#[test]
fn ctrl_z_stops_and_fg_goes_on() -> Result<()> {
    let harness = Harness::file()?;
    let script = "set -m; $SYNCGUARD run k -- sh -c 'echo ready; read -r line; echo got $line'; \
                  echo shell $?; fg; echo status $?";
    let terminal = Terminal::start(&harness, script)?;
    terminal.until("the command", |screen| screen.contains("ready"))?;
    terminal.keys("C-z")?;
    // 128 and SIGSTOP.
    terminal.until("the shell", |screen| screen.contains("shell 147"))?;
    terminal.keys("again")?;
    terminal.keys("Enter")?;
    terminal.until("its line", |screen| screen.contains("got again") && screen.contains("status 0"))
}

/// Ctrl-C ends the waiter. Its line is erased, which it could not be if it were wrapped.
#[test]
fn who_waits_sees_for_whom_in_one_line() -> Result<()> {
    let harness = Harness::file()?;
    let holder = harness.holder("k", &["--holder", &"x".repeat(128)])?;
    let wait = "$SYNCGUARD run k -- echo ran; echo status $?";
    let terminal = Terminal::start(&harness, &format!("{wait}; {wait}"))?;
    let is_waiting = |screen: &str| screen.contains("waiting for xxx");
    terminal.until("the line", is_waiting)?;
    terminal.keys("C-c")?;
    terminal.until("the second one", |screen| is_waiting(screen) && screen.contains("130"))?;
    holder.end()?.expect(0)?;
    terminal.until("its end", |screen| screen.contains("status 0"))?;
    let screen = terminal.screen()?;
    ensure!(screen.starts_with("status 130\nran\n") && !screen.contains("xxx"), "{screen}");
    Ok(())
}

/// `release` asks on a terminal before it takes a lock away.
#[test]
fn release_asks_on_a_terminal() -> Result<()> {
    let harness = Harness::file()?;
    let holder = harness.holder("k", &[])?;
    let release = "$SYNCGUARD release --force k";
    let terminal = Terminal::start(&harness, &format!("{release}; {release}; echo done"))?;
    terminal.until("the question", |screen| screen.contains("Take it away? [y/N]"))?;
    terminal.keys("n")?;
    terminal.keys("Enter")?;
    let asked_twice = |screen: &str| screen.matches("Take it away? [y/N]").count() == 2;
    terminal.until("the second question", asked_twice)?;
    terminal.until("the first answer", |screen| screen.contains("nothing was changed"))?;
    ensure!(!harness.is_free("k")?);
    terminal.keys("y")?;
    terminal.keys("Enter")?;
    terminal.until("the end", |screen| screen.contains("released; fences up to"))?;
    drop(holder);
    Ok(())
}
