//! Runs programs side by side, one at a time in each lane.

use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::program::Program;
use super::progress::Progress;
use super::queue::Queue;
use super::totals::Totals;

/// The number of programs at a time. With more, two cores are so busy that tests miss their deadlines.
const AT_ONCE: usize = 3;

pub(super) struct Runner {
    /// A program that runs longer hangs, and is killed.
    limit: Duration,
}

/// The end of a program.
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) took: Duration,
    pub(super) totals: Totals,
    /// The names of the tests that failed.
    pub(super) failures: Vec<String>,
}

/// A message from a lane to the thread that prints.
pub(super) enum Event {
    Started(usize),
    Line(usize, String),
    Ended(usize, std::io::Result<ExitStatus>, Duration),
}

impl Runner {
    pub(super) fn new(is_full: bool) -> Self {
        let minutes = if is_full { 45 } else { 25 };
        Self { limit: Duration::from_secs(60 * minutes) }
    }

    pub(super) fn run(&self, programs: Vec<Program>) -> Result<Vec<Ended>> {
        let mut progress = Progress::new(&programs);
        let (sender, events) = channel();
        let queue = Arc::new(Queue::new(programs));
        for _ in 0..AT_ONCE {
            let (limit, queue, sender) = (self.limit, Arc::clone(&queue), sender.clone());
            thread::spawn(move || {
                while let Some((index, program)) = queue.next() {
                    let (lane, started) = (program.lane, Instant::now());
                    let _ = sender.send(Event::Started(index));
                    let ended = run_one(index, program, limit, &sender);
                    let _ = sender.send(Event::Ended(index, ended, started.elapsed()));
                    queue.ended(lane);
                }
            });
        }
        // The channel ends with the last thread.
        drop(sender);
        show(&mut progress, &events)?;
        Ok(progress.into_ended())
    }
}

/// The interval of the progress lines.
const STATUS: Duration = Duration::from_secs(20);

fn show(progress: &mut Progress, events: &Receiver<Event>) -> Result<()> {
    let mut next = Instant::now() + STATUS;
    loop {
        let line = match events.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(event) => progress.hear(event),
            Err(RecvTimeoutError::Timeout) => {
                next = Instant::now() + STATUS;
                Some(progress.status())
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if let Some(line) = line {
            writeln!(stdout(), "{line}").context("cannot print")?;
        }
    }
}

/// Passes on each line of output, and returns how the program ended.
fn run_one(
    index: usize,
    mut program: Program,
    limit: Duration,
    events: &Sender<Event>,
) -> std::io::Result<ExitStatus> {
    // One pipe for both outputs, so that the lines stay in order.
    let (output, both) = std::io::pipe()?;
    let command = program.command.stdin(Stdio::null()).stdout(both.try_clone()?).stderr(both);
    let mut child = command.spawn()?;
    // The command holds our ends of the pipe, and the output ends when the last of them is closed.
    drop(program);
    let lines = events.clone();
    let reader = thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            if lines.send(Event::Line(index, line)).is_err() {
                return;
            }
        }
    });
    let status = wait(&mut child, limit);
    // A server that outlives its test may hold the pipe, so the wait for the reader has a limit.
    let last = Instant::now() + Duration::from_secs(5);
    while !reader.is_finished() && Instant::now() < last {
        thread::sleep(PAUSE);
    }
    status
}

const PAUSE: Duration = Duration::from_millis(20);

/// Kills the program after the limit.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            return child.wait();
        }
        thread::sleep(PAUSE);
    }
}
