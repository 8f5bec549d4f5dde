//! `syncguard run --tick` and `syncguard tick`, on a file.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::{install, tools, wait};

use crate::harness::{Finished, Harness, LONG, Running, until_gone};
use crate::schema::Schema;

/// A tick that is months old, so that all processes of a test mean the same one.
const LEAP_DAY: [&str; 4] = ["--tick", "0 0 29 2 *", "--max-lateness", "9years"];

/// Runs a line of the shell for the last leap day.
fn run(harness: &Harness, options: &[&str], line: &str) -> Result<Finished> {
    harness.run(&arguments(options, line))
}

fn arguments<'a>(options: &[&'a str], line: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["run"];
    arguments.extend(LEAP_DAY);
    arguments.extend(options);
    arguments.extend(["job", "--", "sh", "-c", line]);
    arguments
}

/// A loop that runs a line of the shell each second.
fn looping(harness: &Harness, key: &str, line: &str) -> Result<Running> {
    let options = ["run", "--loop", "--tick", "* * * * * *", key, "--", "sh", "-c", line];
    harness.start(&options)
}

fn state(harness: &Harness) -> Result<Value> {
    let printed = harness.run(&["tick", "job", "--json"])?.expect(0)?.stdout;
    Schema::of("tick")?.check_lines(&printed)?;
    Ok(serde_json::from_str(&printed)?)
}

/// The second of the tick whose first attempt has this fence.
fn second_of(fence: &str) -> Result<u64> {
    let fence: u64 = fence.trim().parse()?;
    ensure!(fence.is_multiple_of(1000), "{fence}");
    Ok(fence / 1000)
}

#[test]
fn of_two_processes_at_once_one_runs_the_command() -> Result<()> {
    let harness = Harness::file()?;
    ensure!(state(&harness)?["last"].is_null());
    let arguments = arguments(&[], "echo $SYNCGUARD_TICK $SYNCGUARD_ATTEMPT");
    let both = [harness.start(&arguments)?, harness.start(&arguments)?];
    let mut ended = Vec::new();
    for one in both {
        ended.push(one.end()?);
    }
    ended.sort_by_key(|one| one.status);
    ensure!(ended[0].status == 0, "{ended:?}");
    ensure!(ended[0].stdout.ends_with("-02-29T00:00:00Z 1\n"), "{ended:?}");
    // The command of the other process may still run, or have ended.
    ensure!([75, 79].contains(&ended[1].status) && ended[1].stdout.is_empty(), "{ended:?}");

    let late = run(&harness, &[], "echo ran")?.expect(79)?;
    ensure!(late.stdout.is_empty() && late.stderr.contains("was run before"), "{late:?}");
    let quiet =
        harness.run(&[&["--quiet"][..], &self::arguments(&["-E", "0"], "echo ran")].concat())?;
    ensure!(quiet.status == 0 && quiet.stdout.is_empty() && quiet.stderr.is_empty(), "{quiet:?}");
    let last = &state(&harness)?["last"];
    ensure!(last["done"] == true, "{last}");
    // Raising the attempts runs nothing twice.
    run(&harness, &["--attempts", "3"], "echo ran")?.expect(79).map(drop)
}

#[test]
fn a_running_tick_is_shown_and_holds_up_the_others() -> Result<()> {
    let harness = Harness::file()?;
    let options = ["--attempts", "2", "--ttl", "1h"];
    let mut running = harness.start(&arguments(&options, "echo began; read -r end; exit 0"))?;
    ensure!(running.line()? == "began");
    let busy = run(&harness, &["--attempts", "2", "-E", "9"], "echo ran")?.expect(9)?;
    ensure!(
        busy.stderr.contains(". The holder is ") && busy.stderr.contains("; free in "),
        "{busy:?}"
    );
    let shown = &state(&harness)?["running"];
    let [from, until] = ["acquiredAtMs", "expiresAtMs"].map(|at| shown[at].as_u64().unwrap_or(0));
    ensure!(shown["fence"].is_string() && until - from > 3_500_000, "{shown}");
    running.end()?.expect(0)?;
    // The tick is marked as done, although an attempt is left.
    run(&harness, &["--attempts", "2"], "echo ran")?.expect(79)?;
    let state = state(&harness)?;
    ensure!(state["last"]["done"] == true && state["running"].is_null(), "{state}");
    let shown = harness.run(&["tick", "job", "--tick", "0 0 29 2 *"])?.expect(0)?.stdout;
    ensure!(shown.contains("-02-29T00:00:00Z (done)") && shown.contains("\nnext      "), "{shown}");
    Ok(())
}

#[test]
fn a_command_that_fails_is_followed_by_another_attempt() -> Result<()> {
    let harness = Harness::file()?;
    for attempt in ["1\n", "2\n"] {
        let line = "echo $SYNCGUARD_ATTEMPT; exit 3";
        let options = ["--attempts", "2", "--retry-after", "0"];
        ensure!(run(&harness, &options, line)?.expect(3)?.stdout == attempt);
    }
    run(&harness, &["--attempts", "2"], "echo ran")?.expect(79)?;
    ensure!(state(&harness)?["last"]["attempts"] == 2);
    // The pause after an attempt is for all processes.
    let harness = Harness::file()?;
    let options = ["--attempts", "3", "--retry-after", "1h"];
    run(&harness, &options, "exit 3")?.expect(3)?;
    let paused = run(&harness, &options, "echo ran")?.expect(75)?;
    ensure!(paused.stderr.contains("the pause after it lasts"), "{paused:?}");
    // By default a tick has one attempt.
    let harness = Harness::file()?;
    run(&harness, &[], "exit 3")?.expect(3)?;
    run(&harness, &[], "echo ran")?.expect(79)?;
    Ok(())
}

#[test]
fn a_tick_that_is_too_late_is_missed_and_a_new_key_has_missed_none() -> Result<()> {
    let missed = |harness: &Harness, missed| {
        let options =
            ["run", "--tick", "0 0 29 2 *", "--missed", missed, "job", "--", "echo", "ran"];
        let done = harness.run(&options)?.expect(81)?;
        ensure!(done.stdout.is_empty() && done.stderr.contains("--max-lateness"), "{done:?}");
        Ok(())
    };
    for which in ["skip", "last", "each"] {
        missed(&Harness::file()?, which)?;
    }
    // A key with plain locks of the past shows no tick, and makes up for none.
    let harness = Harness::file()?;
    harness.run(&["fence", "raise", "job", "200000"])?.expect(0)?;
    ensure!(state(&harness)?["last"].is_null());
    missed(&harness, "each")?;
    // The ticks up to the middle of January 2020 are over.
    for (which, status, is_first) in [("skip", 81, false), ("last", 0, false), ("each", 0, true)] {
        let harness = Harness::file()?;
        harness.run(&["fence", "raise", "job", "1579046400999"])?.expect(0)?;
        let options = ["run", "--tick", "0 0 29 2 *", "--missed", which, "job", "--"];
        let line = ["sh", "-c", "echo $SYNCGUARD_TICK"];
        let done = harness.run(&[&options[..], &line].concat())?.expect(status)?;
        ensure!(done.stdout.starts_with("2020-02-29T") == is_first, "{which}: {done:?}");
    }
    Ok(())
}

#[test]
fn a_loop_runs_tick_after_tick_until_a_signal() -> Result<()> {
    let harness = Harness::file()?;
    let mut looping = looping(&harness, "job", "echo $SYNCGUARD_TICK; exit 4")?;
    let ticks = [looping.line()?, looping.line()?, looping.line()?];
    ensure!(ticks[0] < ticks[1] && ticks[1] < ticks[2], "{ticks:?}");
    looping.signal(Signal::TERM)?;
    let ended = looping.ended()?.expect(0)?;
    ensure!(ended.stderr.contains("ended with status 4"), "{ended:?}");
    Ok(())
}

#[test]
fn a_loop_whose_command_runs_ends_with_the_command() -> Result<()> {
    let harness = Harness::file()?;
    let line = "trap 'echo ending; exit 0' TERM; echo began; while :; do sleep 0.05; done";
    let mut looping = looping(&harness, "job", line)?;
    ensure!(looping.line()? == "began");
    looping.signal(Signal::TERM)?;
    ensure!(looping.ended()?.expect(0)?.stdout == "ending\n");
    ensure!(harness.is_free("job")?);
    Ok(())
}

#[test]
fn each_missed_tick_is_made_up_for_by_one_call() -> Result<()> {
    let harness = Harness::file()?;
    let each = |line| {
        let options = ["run", "--tick", "* * * * * *", "--missed", "each"];
        harness.run(&[&options[..], &["job", "--", "sh", "-c", line]].concat())
    };
    // Two ticks are missed while the first one runs.
    let mut ran = second_of(&each("echo $SYNCGUARD_FENCE; sleep 2.1")?.expect(0)?.stdout)?;
    for _ in 0..2 {
        let next = second_of(&each("echo $SYNCGUARD_FENCE")?.expect(0)?.stdout)?;
        ensure!(next == ran + 1, "{next} after {ran}");
        ran = next;
    }
    Ok(())
}

#[test]
fn a_lost_lock_ends_the_command_of_its_tick() -> Result<()> {
    let harness = Harness::file()?;
    let line = "sleep 1000 & echo $$ $!; wait";
    // The lock is gone, so there is no pause.
    let mut running = harness.start(&arguments(&["--ttl", "2s", "--attempts", "3"], line))?;
    let pids = running.numbers()?;
    harness.run(&["release", "--force", "job"])?.expect(0)?;
    let done = running.ended()?.expect(76)?;
    ensure!(done.stderr.contains("no longer knows the lock"), "{done:?}");
    until_gone(&pids)?;
    // The tick is not done, so another attempt follows. The forced release has raised the fence, and used up the second one.
    let line = "echo $SYNCGUARD_ATTEMPT";
    ensure!(run(&harness, &["--attempts", "3"], line)?.expect(0)?.stdout == "3\n");
    Ok(())
}

/// As without ticks: another process may have run beside the end of the command.
#[test]
fn a_lock_that_was_taken_away_as_the_command_ended_is_lost() -> Result<()> {
    let harness = Harness::file()?;
    let program = env!("CARGO_BIN_EXE_syncguard");
    let lose = |key| format!("{program} release --force {key} && echo ran");
    let plain = harness.run(&["run", "job", "--", "sh", "-c", &lose("job")])?.expect(76)?;
    let tick = run(&harness, &[], &lose("job"))?.expect(76)?;
    for done in [plain, tick] {
        ensure!(done.stdout.ends_with("ran\n"), "{done:?}");
        ensure!(done.stderr.contains("when the command had ended"), "{done:?}");
    }
    // A loop says so and goes on.
    let mut looping = looping(&harness, "loop", &lose("loop"))?;
    let lines = [looping.line()?, looping.line()?, looping.line()?, looping.line()?];
    ensure!(lines.iter().filter(|line| *line == "ran").count() == 2, "{lines:?}");
    looping.signal(Signal::TERM)?;
    let ended = looping.ended()?.expect(0)?;
    ensure!(ended.stderr.contains("when the command had ended"), "{ended:?}");
    Ok(())
}

/// The signal comes while the store has not answered.
#[test]
fn a_tick_that_is_granted_as_the_signal_comes_is_run() -> Result<()> {
    let mut server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    let line = "echo $SYNCGUARD_FENCE";
    let options = ["run", "--quiet", "--loop", "--tick", "* * * * * *", "job", "--", "sh", "-c"];
    let arguments = [&options[..], &[line]].concat();
    for _ in 0..3 {
        let mut looping = harness.start(&arguments)?;
        let mut last = looping.line()?;
        // An acquire would use up an attempt of the next tick.
        let is_free = || Ok(harness.run(&["status", "--exit-code", "job"])?.status == 0);
        wait::until("the end of the tick", LONG, is_free)?;
        server.pause()?;
        // The next tick is asked for meanwhile.
        sleep(Duration::from_millis(1_100));
        looping.signal(Signal::TERM)?;
        server.resume()?;
        let ended = looping.ended()?.expect(0)?;
        if let Some(line) = ended.stdout.lines().last() {
            line.clone_into(&mut last);
        }
        let counted = harness.run(&["fence", "show", "job"])?.expect(0)?.stdout;
        let counted: u64 = counted.trim().parse()?;
        ensure!(counted / 1000 == second_of(&last)?, "{counted} was counted, and {last} ran");
    }
    Ok(())
}

#[test]
fn a_loop_that_connects_ends_by_a_signal() -> Result<()> {
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let harness = Harness::at(format!("redis://{}", silent.local_addr()?), None);
    let looping = harness.start(&["run", "--loop", "--tick", "* * * * *", "job", "--", "true"])?;
    let connection = silent.accept()?;
    looping.signal(Signal::TERM)?;
    looping.ended()?.expect(0)?;
    drop(connection);
    Ok(())
}

/// 75: the last tick that was due has not begun, or is not done.
#[test]
fn an_overdue_tick_is_a_status() -> Result<()> {
    let harness = Harness::file()?;
    let options = ["--tick", "0 0 29 2 *", "--tz", "Asia/Tokyo"];
    let tick = |more: &[&str]| harness.run(&[&["tick", "job"], &options[..], more].concat());
    let seen = |status, says: &str| {
        let done = tick(&["--exit-code"])?.expect(status)?;
        ensure!(done.stdout.contains(says), "{done:?}");
        // For people alone.
        tick(&[])?.expect(0)?;
        let json = tick(&["--json"])?.expect(0)?.stdout;
        Schema::of("tick")?.check_lines(&json)?;
        let shown: Value = serde_json::from_str(&json)?;
        ensure!(shown["overdueSinceMs"].is_u64() == (status == 75), "{shown}");
        Ok(())
    };
    seen(75, "no tick of this key has ever begun")?;
    harness.run(&["fence", "raise", "job", "1579046400999"])?.expect(0)?;
    seen(75, "it has not begun)")?;
    let run = |line| {
        let lateness = ["--max-lateness", "9years", "--attempts", "2", "--retry-after", "0"];
        harness.run(&[&["run"], &options[..], &lateness, &["job", "--", "sh", "-c", line]].concat())
    };
    run("exit 3")?.expect(3)?;
    seen(75, "it is not done)")?;
    run("exit 0")?.expect(0)?;
    seen(0, "-02-29T00:00:00+09:00 (done)\nnext      ")?;
    // Within the grace, the tick of four years before is the last one that has to be done.
    let early = tick(&["--exit-code", "--grace", "9years"])?.expect(0)?;
    ensure!(!early.stdout.contains("overdue"), "{early:?}");
    harness.run(&["tick", "job", "--exit-code"])?.expect(64).map(drop)
}

/// The command on a machine whose wall clock is off.
#[cfg(target_os = "linux")]
fn with_clock(harness: &Harness, off: &str, arguments: &[&str]) -> Result<Command> {
    let right = harness.command(arguments);
    let mut command = Command::new(install::require(&tools::FAKETIME)?);
    command
        .args(["--exclude-monotonic", "-f", off])
        .arg(right.get_program())
        .args(right.get_args());
    command.env("SYNCGUARD_STORE", &harness.url).stdin(Stdio::null());
    Ok(command)
}

/// The store's time decides what is overdue, on a machine whose clock is behind or ahead.
#[cfg(target_os = "linux")]
#[test]
fn monitoring_goes_by_the_stores_time() -> Result<()> {
    let (redis, postgres) = (RedisServer::start()?, PostgresServer::start()?);
    for url in [redis.url(), format!("{}?setup_schema=true", postgres.url())] {
        let harness = Harness::at(url, None);
        harness.run(&["run", "--tick", "* * * * * *", "job", "--", "true"])?.expect(0)?;
        let tick = ["tick", "job", "--tick", "* * * * * *", "--grace", "2s"];
        let is_overdue = || Ok(harness.run(&[&tick[..], &["-e"]].concat())?.status == 75);
        wait::until("the grace", LONG, is_overdue)?;
        for off in ["-1h", "+1h"] {
            let seen = with_clock(&harness, off, &[&tick[..], &["-e"]].concat())?.output()?;
            let seen = Finished::of(&seen).expect(75)?;
            let is_soon = seen.stdout.contains("(in 0s)") || seen.stdout.contains("ms)");
            ensure!(is_soon && seen.stdout.contains("it has not begun"), "{off}: {seen:?}");
            let seen =
                with_clock(&harness, off, &["export", "--tick", "job=* * * * *"])?.output()?;
            let text = Finished::of(&seen).expect(0)?.stdout;
            let of = |name: &str| -> Result<u64> {
                let name = format!("syncguard_tick_{name}_timestamp_seconds{{key=\"job\"}} ");
                let line = text.lines().find_map(|line| line.strip_prefix(&name));
                Ok(line.context("a sample")?.parse()?)
            };
            let (due, done) = (of("due")?, of("done")?);
            ensure!(due <= done + 60 && done <= due + 60, "{off}: {text}");
        }
    }
    Ok(())
}

/// One run with a clock that is an hour ahead, on the store that goes by the machine's clock.
#[cfg(target_os = "linux")]
#[test]
fn a_tick_of_the_future_is_an_alert() -> Result<()> {
    let harness = Harness::file()?;
    let run = ["run", "--tick", "* * * * *", "job", "--", "echo", "ran"];
    let ran = with_clock(&harness, "+1h", &run)?.output()?;
    Finished::of(&ran).expect(0)?;
    let refused = harness.run(&run)?.expect(80)?;
    ensure!(
        refused.stdout.is_empty() && refused.stderr.contains("a clock was wrong"),
        "{refused:?}"
    );
    for tick in [&["-e", "--tick", "* * * * *"][..], &[]] {
        let seen = harness.run(&[&["tick", "job"], tick].concat())?;
        ensure!(seen.status == if tick.is_empty() { 0 } else { 75 }, "{seen:?}");
        ensure!(seen.stdout.contains("\nahead     by 5"), "{seen:?}");
    }
    let examined = harness.run(&["doctor"])?.expect(0)?.stdout;
    ensure!(
        examined.contains(r#"the last tick of the key "job" is"#)
            && examined.contains("another key"),
        "{examined}"
    );
    ensure!(state(&harness)?["aheadMs"].as_u64() > Some(3_000_000));
    let text = harness.run(&["export", "--tick", "job=* * * * *"])?.expect(0)?.stdout;
    ensure!(text.contains("\nsyncguard_tick_begun_timestamp_seconds{"), "{text}");
    ensure!(!text.contains("\nsyncguard_tick_done_timestamp_seconds{"), "{text}");
    Ok(())
}

/// Each call of the command makes one attempt.
#[test]
fn a_failed_attempt_says_how_the_next_one_comes_about() -> Result<()> {
    let harness = Harness::file()?;
    let fail = |key, lateness: &[&str]| -> Result<String> {
        let tick = ["run", "--attempts", "2", "--retry-after", "0", "--tick", "* * * * *"];
        let failed = harness.run(&[&tick[..], lateness, &[key, "--", "false"]].concat())?;
        Ok(failed.expect(1)?.stderr)
    };
    // Another minute may begin meanwhile.
    for _ in 0..2 {
        let says = fail("job", &[])?;
        let hint =
            "attempt 1 of 2 has failed; the next one needs another start of this command within";
        ensure!(says.contains(hint) || says.is_empty(), "{says}");
    }
    let says = fail("last", &["--missed", "last"])?;
    ensure!(says.ends_with("another start of this command\n"), "{says}");
    let line = [&["--quiet"][..], &arguments(&["--attempts", "2"], "exit 1")].concat();
    let says = Harness::file()?.run(&line)?.expect(1)?.stderr;
    ensure!(says.is_empty(), "{says}");
    Ok(())
}

/// Day fields of which cron makes something else are told to people.
#[test]
fn an_expression_with_other_days_than_under_cron_is_warned_of() -> Result<()> {
    let harness = Harness::file()?;
    for (cron, is_warned) in [("0 0 */2 * 1", true), ("0 0 */2 * +1", false)] {
        let exported = format!("job={cron}");
        for line in [&["tick", "job", "--tick", cron][..], &["export", "--tick", &exported]] {
            let warned = harness.run(line)?.expect(0)?.stderr;
            ensure!(warned.contains("warning: one day field") == is_warned, "{line:?}: {warned}");
            let quiet = harness.run(&[&["--quiet"], line].concat())?.expect(0)?.stderr;
            ensure!(quiet.is_empty(), "{quiet}");
        }
    }
    let shown = harness.run(&["tick", "job", "--tick", "@midnight", "--tz", "Asia/Tokyo"])?;
    let shown = shown.expect(0)?.stdout;
    ensure!(
        shown.contains("T00:00:00+09:00") && shown.contains("\nzone      Asia/Tokyo"),
        "{shown}"
    );
    Ok(())
}

/// A machine whose clock is an hour ahead uses up no coming tick. Redis keeps its own clock.
#[cfg(target_os = "linux")]
#[test]
fn a_clock_that_is_ahead_runs_nothing() -> Result<()> {
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    let arguments = ["run", "--tick", "* * * * *", "job", "--", "echo", "ran"];
    let mut ahead = with_clock(&harness, "+1h", &arguments)?;
    let done = Finished::of(&ahead.output()?).expect(80)?;
    ensure!(done.stdout.is_empty() && done.stderr.contains("clock is ahead"), "{done:?}");
    ensure!(state(&harness)?["last"].is_null());
    // The machine whose clock is right runs the tick.
    let late = ["run", "--max-lateness", "5m", "--tick", "* * * * *", "job", "--"];
    let line = ["sh", "-c", "echo ran; read -r end; exit 0"];
    let mut right = harness.start(&[&late[..], &line].concat())?;
    ensure!(right.line()? == "ran");
    // Too early as well while the command runs: 75 would hide that the clock is wrong.
    Finished::of(&ahead.output()?).expect(80)?;
    right.end()?.expect(0).map(drop)
}
