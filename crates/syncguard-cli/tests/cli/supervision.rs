//! `syncguard run` when the command, the watchdog or `syncguard` itself is stopped or killed.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::Value;
use syncguard_test_services::wait;

use crate::harness::{Harness, LONG, until_gone};
use crate::processes::{family, is_running, name, state};

/// A command with a child, which no parent-death signal reaches. The command prints both process
/// ids.
const FAMILY: &str = "sleep 1000 & echo $$ $!; wait";

/// The same, but both processes ignore SIGTERM.
const DEAF: &str = "trap '' TERM; sleep 1000 & echo $$ $!; wait; wait";

/// Here only the child ignores SIGTERM.
const HALF_DEAF: &str = "trap '' TERM; sleep 1000 >&- 2>&- & trap - TERM; echo $$ $!; wait";

fn signal(pid: u32, signal: Signal) -> Result<()> {
    Ok(kill_process(Pid::from_raw(pid.cast_signed()).context("a process")?, signal)?)
}

/// The watchdog of a running `syncguard`.
fn watchdog(of: u32) -> Option<u32> {
    let family = family(of);
    family.iter().find(|(_, seen)| seen.contains("__watchdog")).map(|(pid, _)| *pid)
}

/// Waits until this process has another watchdog.
fn until_replaced(of: u32, old: u32) -> Result<u32> {
    let mut new = None;
    wait::until("another watchdog", LONG, || {
        new = watchdog(of).filter(|now| *now != old);
        Ok(new.is_some())
    })?;
    new.context("a watchdog")
}

/// The expiry of the lock, in milliseconds.
fn expiry(harness: &Harness, key: &str) -> Result<u64> {
    let shown = harness.run(&["status", "--json", key])?.expect(0)?;
    let shown: Value = serde_json::from_str(&shown.stdout)?;
    shown["expiresAtMs"].as_u64().with_context(|| shown.to_string())
}

/// Without a terminal, nobody would continue `syncguard`: a debugger or an administrator who stops
/// the command continues the command alone.
#[test]
fn a_command_that_is_stopped_without_a_terminal_keeps_its_lock() -> Result<()> {
    let harness = Harness::file()?;
    let script = "trap 'echo got' USR1; sleep 1000 & echo $$ $!; wait; wait";
    let (mut running, pids) = harness.family(&["--ttl", "2s", "k"], script)?;
    // A signal with a meaning of its own is for the command alone: its child would die.
    running.signal(Signal::USR1)?;
    ensure!(running.line()? == "got");
    signal(pids[0], Signal::STOP)?;
    wait::until("the stop", LONG, || Ok(state(pids[0]) == Some('T')))?;
    let first = expiry(&harness, "k")?;
    // The watchdog hears of the renewals: it would have ended the command by now.
    wait::until("three renewals after that", LONG, || Ok(expiry(&harness, "k")? > first + 2_500))?;
    ensure!(is_running(pids[1]), "the child");
    // It ends a command that is stopped.
    running.signal(Signal::TERM)?;
    running.ended()?.expect(143)?;
    until_gone(&pids)
}

/// Ctrl-Z in a pipeline, where `syncguard` has no terminal: the shell waits for both to stop.
#[test]
fn sigtstp_stops_both_and_sigcont_continues_both() -> Result<()> {
    let harness = Harness::file()?;
    let (running, pids) = harness.family(&["k"], FAMILY)?;
    let both = [running.pid()?, pids[0]];
    for (sent, stops) in [(Signal::TSTP, true), (Signal::CONT, false)] {
        running.signal(sent)?;
        let is_done = |pid: &u32| (state(*pid) == Some('T')) == stops;
        wait::until("both", LONG, || Ok(both.iter().all(is_done)))?;
    }
    running.signal(Signal::TERM)?;
    running.ended()?.expect(143).map(drop)
}

/// A watchdog that is killed or stopped is replaced. The replacement knows the group, and how long the lock is valid.
#[test]
fn a_watchdog_that_is_gone_is_replaced() -> Result<()> {
    for end in [Signal::KILL, Signal::STOP] {
        let harness = Harness::file()?;
        let (running, pids) = harness.family(&["--ttl", "2s", "k"], FAMILY)?;
        let own = running.pid()?;
        let mut old = watchdog(own).context("a watchdog")?;
        for gone in [Signal::KILL, Signal::STOP, Signal::KILL] {
            signal(old, gone)?;
            let new = until_replaced(own, old)?;
            until_gone(&[old])?;
            old = new;
        }
        // Between two renewals: the watchdog has heard of the last one, or it would end the command before the lock is over.
        wait::until("a while after a renewal", LONG, || {
            let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
            Ok((1_400..1_800).contains(&expiry(&harness, "k")?.saturating_sub(now)))
        })?;
        running.signal(end)?;
        until_gone(&pids)?;
        if end == Signal::STOP {
            running.signal(Signal::CONT)?;
            running.ended()?.expect(76)?;
        }
    }
    Ok(())
}

/// The command has ended and its lock is over when `syncguard` goes on.
#[test]
fn a_lock_that_ended_before_the_command_during_a_pause_is_lost() -> Result<()> {
    let harness = Harness::file()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("end");
    let line = format!("echo $$; until [ -e {} ]; do sleep 0.02; done; echo done", file.display());
    let options = ["run", "--ttl", "300ms", "--on-lost", "ignore", "k", "--", "sh", "-c", &line];
    let mut running = harness.start(&options)?;
    let pids = running.numbers()?;
    running.signal(Signal::STOP)?;
    wait::until("the end of the lock", LONG, || harness.is_free("k"))?;
    fs::write(&file, "")?;
    wait::until("the end of the command", LONG, || Ok(matches!(state(pids[0]), None | Some('Z'))))?;
    running.signal(Signal::CONT)?;
    let done = running.ended()?.expect(76)?;
    ensure!(done.stdout == "done\n", "the watchdog lets it go on: {done:?}");
    Ok(())
}

/// Signals that ask programs to end are for the command, and the watchdog ignores them. It says in `ps` what it is.
#[test]
fn a_watchdog_does_not_end_by_a_signal_that_can_be_refused() -> Result<()> {
    let harness = Harness::file()?;
    let (running, pids) = harness.family(&["k"], FAMILY)?;
    let own = watchdog(running.pid()?).context("a watchdog")?;
    let named = format!("lock-watchdog of {}", running.pid()?);
    let wanted = ("lock-watchdog".to_owned(), named);
    wait::until("its name", LONG, || Ok(name(own) == wanted))?;
    let blocked = || -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{own}/status"))?;
        let masks = status.lines().filter_map(|line| {
            line.strip_prefix("SigBlk:").or_else(|| line.strip_prefix("SigIgn:"))
        });
        Ok(masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).fold(0, |a, b| a | b))
    };
    for ending in [Signal::TERM, Signal::HUP, Signal::INT] {
        wait::until("a mask", LONG, || Ok(blocked()? >> (ending.as_raw() - 1) & 1 == 1))?;
        signal(own, ending)?;
    }
    running.signal(Signal::KILL)?;
    until_gone(&pids)?;
    wait::until("its own end", LONG, || Ok(!matches!(state(own), Some('S' | 'R' | 'D'))))
}

/// No name by which an operator ends `syncguard` is a name of its watchdog, which then ends the command and its children.
/// The signals here are as fast as those of `pkill -9`: all processes that match are found first.
#[test]
fn a_watchdog_outlives_the_end_of_all_that_is_called_syncguard() -> Result<()> {
    // Whether the process has a name that the program looks for, and whether the watchdog is a replacement.
    for (is_called, is_replaced) in [
        (as_for_pkill as fn(u32) -> bool, false),
        (as_for_pkill_f, false),
        (as_for_pkill, true),
        (as_for_pkill_f, true),
    ] {
        let harness = Harness::file()?;
        let (running, pids) = harness.family(&["k"], FAMILY)?;
        let own = running.pid()?;
        if is_replaced {
            let old = watchdog(own).context("a watchdog")?;
            signal(old, Signal::KILL)?;
            let new = until_replaced(own, old)?;
            wait::until("its name", LONG, || Ok(name(new).0 == "lock-watchdog"))?;
        }
        let found: Vec<u32> =
            family(own).into_iter().map(|(pid, _)| pid).filter(|pid| is_called(*pid)).collect();
        ensure!(found.contains(&own), "{found:?}");
        found.iter().try_for_each(|pid| signal(*pid, Signal::KILL))?;
        until_gone(&pids)?;
    }
    Ok(())
}

/// As `pkill syncguard`, `pkill -x syncguard` and `killall syncguard` find processes.
fn as_for_pkill(pid: u32) -> bool {
    name(pid).0.contains("syncguard")
}

/// As `pkill -f syncguard` and `pidof syncguard` find processes.
fn as_for_pkill_f(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("syncguard")
}

/// The command, or a child that ends later, can use the grace to clean up: SIGKILL does not come together with SIGTERM. A
/// command that is stopped hears of it, too.
#[test]
fn a_command_has_its_grace_to_clean_up() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cleaned");
    let cleans_up = format!(
        "trap 'echo asked; sleep 0.5; echo > {}; exit 0' TERM; echo $$; sleep 1000 & wait",
        file.display()
    );
    for script in [&cleans_up, &format!("({cleans_up}) & wait")] {
        let harness = Harness::file()?;
        let (mut running, pids) =
            harness.family(&["--ttl", "2s", "--grace", "30s", "k"], script)?;
        signal(pids[0], Signal::STOP)?;
        wait::until("the stop", LONG, || Ok(state(pids[0]) == Some('T')))?;
        harness.run(&["release", "--force", "k"])?.expect(0)?;
        ensure!(running.line()? == "asked");
        running.ended()?.expect(76)?;
        fs::remove_file(&file).context("it could not clean up")?;
    }
    Ok(())
}

/// A command that ends may leave processes behind in its group.
#[test]
fn a_process_that_a_command_leaves_behind_goes_on() -> Result<()> {
    let harness = Harness::file()?;
    let line = "sleep 1000 >/dev/null 2>&1 & echo $!; read -r end; exit 0";
    let (running, pids) = harness.family(&["k"], line)?;
    let watchdog = watchdog(running.pid()?).context("a watchdog")?;
    running.end()?.expect(0)?;
    until_gone(&[watchdog])?;
    ensure!(is_running(pids[0]), "it was ended");
    signal(pids[0], Signal::KILL)
}

/// SIGKILL comes after the grace from `syncguard` itself, even if there is no watchdog to send it.
#[test]
fn a_command_that_does_not_listen_is_killed_without_a_watchdog_too() -> Result<()> {
    for script in [DEAF, HALF_DEAF] {
        let harness = Harness::file()?;
        let (running, pids) = harness.family(&["--ttl", "2s", "--grace", "200ms", "k"], script)?;
        let own = running.pid()?;
        // No new watchdog can be started: no file descriptors are left for its pipes.
        let open = fs::read_dir(format!("/proc/{own}/fd"))?.count() as u64;
        let limit =
            Rlimit { current: Some(open.min(8)), maximum: getrlimit(Resource::Nofile).maximum };
        prlimit(Pid::from_raw(own.cast_signed()), Resource::Nofile, limit)?;
        signal(watchdog(own).context("a watchdog")?, Signal::KILL)?;
        wait::until("no watchdog", LONG, || Ok(watchdog(own).is_none()))?;
        harness.run(&["release", "--force", "k"])?.expect(0)?;
        let done = running.ended()?.expect(76)?;
        ensure!(done.stderr.contains("the lock was lost"), "{done:?}");
        until_gone(&pids)?;
    }
    Ok(())
}

/// The whole of `syncguard` was frozen between the grant and the start, as by `docker pause`, or has ended.
#[cfg(target_os = "linux")]
#[test]
fn a_command_is_not_started_when_its_lock_is_over() -> Result<()> {
    use rustix::time::{ClockId, clock_gettime};

    let now = || -> Result<u128> {
        Ok(std::time::Duration::try_from(clock_gettime(ClockId::Boottime))?.as_millis())
    };
    // The shell becomes the process that becomes the command. If `syncguard` has ended, another process is the parent.
    for (parent, left, status, printed) in
        [("$PPID", 300, 76, ""), ("$PPID", 3_600_000, 0, "ran\n"), ("$$", 3_600_000, 76, "")]
    {
        let until = now()? + left;
        let line = format!(
            "echo $$; kill -STOP $$; exec \"$0\" __launch {parent} 0 \"$1\" goes /bin/echo echo ran"
        );
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_syncguard"), &until.to_string()]);
        let mut running = Harness::spawn(command)?;
        let pid = running.numbers()?[0];
        wait::until("the stop", LONG, || Ok(state(pid) == Some('T')))?;
        wait::until("the end of the lock", LONG, || Ok(left > 300 || now()? > until))?;
        signal(pid, Signal::CONT)?;
        let done = running.ended()?.expect(status)?;
        ensure!(done.stdout == printed, "{done:?}");
        ensure!(done.stderr.contains("it was not started") == (left == 300), "{done:?}");
    }
    Ok(())
}

/// A program that becomes `syncguard` may leave it children, and signals that it ignores, as `nohup` does.
#[test]
fn children_that_were_not_started_here_are_reaped_and_ignored_signals_stay_ignored() -> Result<()> {
    let harness = Harness::file()?;
    let line = "trap '' HUP; sleep 1000 & echo $!; exec \"$0\" run k -- sh -c \"$1\"";
    let script = "trap 'exit 0' USR2; echo held; read -r end; exit 1";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", line, env!("CARGO_BIN_EXE_syncguard"), script]);
    command.env("SYNCGUARD_STORE", &harness.url);
    let mut running = Harness::spawn(command)?;
    let left = running.numbers()?[0];
    ensure!(running.line()? == "held");
    signal(left, Signal::KILL)?;
    wait::until("its end", LONG, || Ok(state(left).is_none()))?;
    // Of signals that come together, SIGHUP is handled first.
    running.signal(Signal::HUP)?;
    running.signal(Signal::USR2)?;
    running.ended()?.expect(0).map(drop)
}
