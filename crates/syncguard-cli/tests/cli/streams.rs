//! Readers of the output that have gone, or stand still.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _, pipe};
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use syncguard_test_services::wait;

use crate::harness::{Finished, Harness, LONG, until_caught};

/// As behind `| head -1`.
#[test]
fn a_reader_that_has_gone_hears_nothing() -> Result<()> {
    let harness = Harness::file()?;
    for key in ["a", "b"] {
        harness.run(&["acquire", key, "--json", "--holder", "x"])?.expect(0)?;
    }
    for arguments in [
        &["ls"][..],
        &["ls", "--json"],
        &["export"],
        &["status", "a"],
        &["status", "a", "--json"],
        &["watch", "--json", "-i", "100ms"],
        &["fence", "show", "a"],
        &["fence", "find", "0123456789"],
        &["tick", "a"],
        &["doctor", "--rounds", "1"],
        &["completions", "bash"],
        &["man", "run"],
        // Each of the locks is taken away.
        &["release", "--holder", "x", "--force", "--quiet"],
    ] {
        let (reader, writer) = pipe()?;
        drop(reader);
        let output = harness.command(arguments).stdout(writer).stderr(Stdio::piped()).output()?;
        let done = Finished::of(&output).expect(141)?;
        ensure!(done.stderr.is_empty(), "{arguments:?}: {done:?}");
    }
    ensure!(harness.is_free("a")? && harness.is_free("b")?);
    Ok(())
}

/// A pipe that is full, and whose reader stands still.
fn full_pipe() -> Result<(PipeReader, PipeWriter)> {
    let (reader, mut writer) = pipe()?;
    fcntl_setfl(&writer, OFlags::NONBLOCK)?;
    while writer.write(&[b'.'; 512]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty())?;
    Ok((reader, writer))
}

fn ends_with(mut child: Child, status: i32) -> Result<()> {
    kill_process(Pid::from_raw(child.id().cast_signed()).context("a process")?, Signal::TERM)?;
    let ended = wait::until("the end", LONG, || Ok(child.try_wait()?.is_some()));
    if ended.is_err() {
        child.kill()?;
    }
    ended?;
    ensure!(child.wait()?.code() == Some(status));
    Ok(())
}

#[test]
fn a_reader_of_messages_that_stands_still_holds_up_no_tick_and_no_signal() -> Result<()> {
    let harness = Harness::file()?;
    let (reader, writer) = full_pipe()?;
    // Each tick has a message.
    let looping =
        ["run", "--loop", "--tick", "* * * * * *", "k", "--", "sh", "-c", "echo ran; exit 4"];
    let mut child = harness.command(&looping).stdout(Stdio::piped()).stderr(writer).spawn()?;
    let lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
    let (tick, ticks) = channel();
    thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tick.send(line)));
    let three = (0..3).try_for_each(|_| ticks.recv_timeout(LONG).map(drop));
    ends_with(child, 0)?;
    three?;
    drop(reader);
    Ok(())
}

#[test]
fn a_reader_of_a_watch_that_stands_still_holds_up_no_signal() -> Result<()> {
    let harness = Harness::file()?;
    let (reader, writer) = full_pipe()?;
    let watch = ["watch", "--json", "-i", "100ms"];
    let child = harness.command(&watch).stdout(writer).spawn()?;
    until_caught(child.id(), Signal::TERM)?;
    ends_with(child, 143)?;
    drop(reader);
    Ok(())
}
