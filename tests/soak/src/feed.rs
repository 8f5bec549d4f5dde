//! Reads the histories of the processes while they write them.
//!
//! All processes write to one named pipe. A line is shorter than a pipe's atomic write, so lines stay whole, also
//! those of a killed process, and no file has to be read twice, rotated or cut off. If a process was stopped between
//! an event and its write, its line comes later than those of other processes, so the checker examines a line only
//! when no earlier line can come any more.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Deserializer;
use syncguard_history::{Checker, Entry, History, Line};

use crate::outcomes::Outcomes;

/// How much older than the newest line a line may be: processes are stopped for at most two seconds, also between a
/// look at the clock and the write, and a busy machine lets them go on some seconds later.
pub(crate) const BEHIND: Duration = Duration::from_secs(12);

/// How many of the newest lines are kept, to examine a violation.
const KEPT: usize = 300_000;

pub(crate) struct Feed {
    pipe: PathBuf,
    lines: Receiver<Result<Line>>,
    /// The time of the newest line, and the time up to which lines were examined, in microseconds.
    newest: u64,
    looked: u64,
    alive: HashSet<String>,
    outcomes: Outcomes,
    kept: VecDeque<Line>,
}

impl Feed {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let pipe = folder.join("record");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Open for writing too, so that the pipe does not end without other writers.
        let reading = File::options().read(true).write(true).open(&pipe)?;
        // More room, so that no process waits for the reader. If the system does not allow it, some will wait.
        let _ = rustix::pipe::fcntl_setpipe_size(&reading, 1 << 20);
        let (sender, lines) = sync_channel(100_000);
        thread::spawn(move || {
            let reading = BufReader::with_capacity(1 << 16, reading);
            for line in Deserializer::from_reader(reading).into_iter() {
                let is_over = line.is_err();
                if sender.send(line.context("a line")).is_err() || is_over {
                    return;
                }
            }
        });
        let (alive, outcomes, kept) = (HashSet::new(), Outcomes::default(), VecDeque::new());
        Ok(Self { pipe, lines, newest: 0, looked: 0, alive, outcomes, kept })
    }

    pub(crate) fn pipe(&self) -> &Path {
        &self.pipe
    }

    /// Passes on the new lines, and waits a moment for more. Returns true if it has seen the end: the final state,
    /// which the process `last` writes.
    pub(crate) fn pump(&mut self, last: &str, checker: &mut Checker) -> Result<bool> {
        let mut is_over = false;
        let mut next = self.lines.recv_timeout(Duration::from_millis(10));
        loop {
            match next {
                Ok(line) => {
                    let line = line?;
                    is_over |= line.process == last && matches!(line.entry, Entry::Quiet { .. });
                    self.note(&line)?;
                    checker.feed(line);
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => bail!("the record is over"),
            }
            next = self.lines.try_recv().map_err(|_| RecvTimeoutError::Timeout);
        }
        let behind = u64::try_from(BEHIND.as_micros()).unwrap_or(u64::MAX);
        self.looked = self.newest.saturating_sub(behind);
        checker.advance(self.looked);
        Ok(is_over)
    }

    fn note(&mut self, line: &Line) -> Result<()> {
        self.newest = self.newest.max(line.at.steady);
        let late = Duration::from_micros(self.looked.saturating_sub(line.at.steady));
        ensure!(late.is_zero(), "a line of {} is {late:?} too late to be looked at", line.process);
        self.outcomes.note(line);
        self.kept.push_back(line.clone());
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
        match &line.entry {
            Entry::Ended { process } => drop(self.alive.remove(process)),
            Entry::Quiet { .. } => drop(self.alive.remove(&line.process)),
            _ if self.alive.contains(&line.process) => {}
            _ => drop(self.alive.insert(line.process.clone())),
        }
        Ok(())
    }

    pub(crate) fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// Writes the newest lines into a file of this folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let mut file = BufWriter::new(File::create(folder.join("history.jsonl"))?);
        for line in &self.kept {
            serde_json::to_writer(&mut file, line)?;
            file.write_all(b"\n")?;
        }
        Ok(file.flush()?)
    }

    /// The newest lines, without answers to older calls.
    pub(crate) fn history(&self) -> Result<History> {
        let mut called = HashSet::new();
        let lines = self.kept.iter().filter(|line| match &line.entry {
            Entry::Called { number, .. } => called.insert((&line.process, *number)),
            Entry::Answered { number, .. } => called.remove(&(&line.process, *number)),
            _ => true,
        });
        History::new(lines.cloned())
    }

    /// Processes that wrote lines and neither ended in order nor were killed.
    pub(crate) fn unaccounted(&self) -> Vec<&str> {
        self.alive.iter().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use syncguard_history::{Answer, Call, Invariant, Limits, Recorder};

    use super::*;

    /// A run that never finds a violation would prove nothing.
    #[test]
    fn what_two_processes_write_is_checked_while_they_write_it() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let (mut feed, mut checker) = (Feed::open(folder.path())?, Checker::new(Limits::new()));
        let started = Instant::now();
        for (process, fence) in [("one", 2), ("another", 1)] {
            let recorder = Recorder::to_file(process, feed.pipe())?;
            let (key, lock) = ("key".to_owned(), process.to_owned());
            let pending = recorder.call(Call::Acquire { key, lock, ttl: 1000 });
            pending.answer(Answer::Acquired { fence, expires_at: u64::MAX / 2 });
            recorder.note(Entry::Ended { process: "one".to_owned() });
        }
        let last = Recorder::to_file("last", feed.pipe())?;
        last.note(Entry::Quiet { live: 0, tasks: 0, borrowed: 0 });
        while !feed.pump("last", &mut checker)? {
            ensure!(started.elapsed() < Duration::from_secs(60), "no end");
        }
        assert_eq!(feed.unaccounted(), ["another"]);
        assert_eq!(feed.history()?.operations.len(), 2);
        let broken: Vec<_> = checker.finish().violations.iter().map(|it| it.invariant).collect();
        assert!(broken.contains(&Invariant::FencesGrow), "{broken:?}");
        Ok(())
    }
}
