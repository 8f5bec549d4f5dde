//! The progress of the programs, and its output.

use std::fmt::Write as _;
use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::program::Program;
use super::runner::{Ended, Event};
use super::totals::Totals;

pub(super) struct Progress {
    started: Instant,
    programs: Vec<State>,
}

struct State {
    name: String,
    is_example: bool,
    is_running: bool,
    took: Option<Duration>,
    totals: Totals,
    failures: Vec<String>,
    /// The tests that have run for over a minute.
    slow: Vec<String>,
    /// The output of the program, without passed tests.
    output: String,
}

impl Progress {
    pub(super) fn new(programs: &[Program]) -> Self {
        let programs = programs.iter().map(|program| State {
            name: program.name.clone(),
            is_example: program.is_example,
            is_running: false,
            took: None,
            totals: Totals::default(),
            failures: Vec::new(),
            slow: Vec::new(),
            output: String::new(),
        });
        Self { started: Instant::now(), programs: programs.collect() }
    }

    /// Records an event, and returns the text to print.
    pub(super) fn hear(&mut self, event: Event) -> Option<String> {
        match event {
            Event::Started(index) => {
                self.programs[index].is_running = true;
                None
            }
            Event::Line(index, line) => {
                self.programs[index].add_line(&line);
                None
            }
            Event::Ended(index, status, took) => {
                let at = self.started.elapsed();
                Some(self.programs[index].end(status, took, at))
            }
        }
    }

    /// One line with the number of ended programs and the progress of the running ones.
    pub(super) fn status(&self) -> String {
        let ended = self.programs.iter().filter(|state| state.took.is_some()).count();
        let seconds = self.started.elapsed().as_secs();
        let mut line = format!("{seconds:4} s  {ended} of {} ended;", self.programs.len());
        for state in self.programs.iter().filter(|state| state.is_running) {
            let Totals { announced, ended, .. } = state.totals;
            // Writing to a string does not fail.
            let _ = match announced {
                0 => write!(line, " {},", state.name),
                _ => write!(line, " {} {ended}/{announced},", state.name),
            };
        }
        line.trim_end_matches([',', ';']).to_owned()
    }

    pub(super) fn into_ended(self) -> Vec<Ended> {
        let ended = self.programs.into_iter().map(|state| Ended {
            name: state.name,
            took: state.took.unwrap_or_default(),
            totals: state.totals,
            failures: state.failures,
        });
        ended.collect()
    }
}

impl State {
    fn add_line(&mut self, line: &str) {
        if let Some(failed) = self.totals.add_line(line) {
            self.failures.push(failed.to_owned());
        }
        if let Some((test, _)) = line.split_once(" has been running for over ") {
            self.slow.extend(test.strip_prefix("test ").map(str::to_owned));
        } else if let Some((test, _)) = line.split_once(" ... ") {
            self.slow.retain(|slow| test.strip_prefix("test ") != Some(slow));
        }
        let is_fine = line.starts_with("test ") && line.ends_with(" ... ok");
        if !is_fine {
            self.output.push_str(line);
            self.output.push('\n');
        }
    }

    fn end(&mut self, status: io::Result<ExitStatus>, took: Duration, at: Duration) -> String {
        self.is_running = false;
        self.took = Some(took);
        let problem = match status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if self.is_example {
            self.totals.passed = u64::from(problem.is_none());
        }
        if let Some(problem) = &problem
            && self.totals.failed == 0
        {
            // A program that crashes, or that was killed, has no line with its result.
            self.totals.failed = 1;
            self.failures.push(problem.clone());
            self.failures.extend(self.slow.iter().map(|test| format!("{test} did not end")));
        }
        let Totals { passed, failed, .. } = self.totals;
        let (at, took) = (at.as_secs(), took.as_secs_f64());
        let line = format!("{at:4} s  {took:6.1} s  {}: {passed} passed", self.name);
        match problem {
            None => line,
            Some(problem) => {
                let output = std::mem::take(&mut self.output);
                format!("{line}, {failed} FAILED ({problem})\n{output}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::super::lanes::Lane;
    use super::*;

    fn progress(is_example: bool) -> Progress {
        let command = Command::new("true");
        let name = "core waiting".to_owned();
        Progress::new(&[Program { name, lane: Lane::Quick, is_example, command }])
    }

    fn line(progress: &mut Progress, line: &str) {
        assert_eq!(progress.hear(Event::Line(0, line.to_owned())), None);
    }

    fn ended(progress: &mut Progress, code: i32) -> String {
        let status = Ok(ExitStatus::from_raw(code));
        progress.hear(Event::Ended(0, status, Duration::from_secs(2))).unwrap()
    }

    #[test]
    fn says_how_far_a_program_is_and_how_it_ended() {
        let mut progress = progress(false);
        progress.hear(Event::Started(0));
        line(&mut progress, "running 2 tests");
        line(&mut progress, "test a ... ok");
        assert!(progress.status().ends_with(" 0 of 1 ended; core waiting 1/2"));
        line(&mut progress, "test b ... ok");
        line(&mut progress, "test result: ok. 2 passed; 0 failed; 0 ignored");
        assert!(ended(&mut progress, 0).ends_with(" core waiting: 2 passed"));
        assert!(progress.status().ends_with(" 1 of 1 ended"));
    }

    #[test]
    fn shows_the_output_of_a_failure_without_the_tests_that_passed() {
        let mut progress = progress(false);
        for text in ["test a ... ok", "test b ... FAILED", "b says why"] {
            line(&mut progress, text);
        }
        line(&mut progress, "test result: FAILED. 1 passed; 1 failed; 0 ignored");
        let shown = ended(&mut progress, 101 << 8);
        assert!(shown.contains("core waiting: 1 passed, 1 FAILED"), "{shown}");
        assert!(shown.contains("b says why") && !shown.contains("test a"), "{shown}");
        let [ended] = progress.into_ended().try_into().ok().unwrap();
        assert_eq!((ended.totals.failed, ended.failures), (1, vec!["b".to_owned()]));
    }

    #[test]
    fn counts_a_program_that_crashes_as_a_failure() {
        let mut progress = progress(false);
        line(&mut progress, "running 2 tests");
        assert!(ended(&mut progress, 6).contains("1 FAILED"));
        assert_eq!(progress.into_ended()[0].totals.failed, 1);
    }

    #[test]
    fn names_the_tests_that_did_not_end() {
        let mut progress = progress(false);
        for test in ["a", "b"] {
            line(&mut progress, &format!("test {test} has been running for over 60 seconds"));
        }
        line(&mut progress, "test a ... ok");
        ended(&mut progress, 9);
        assert_eq!(progress.into_ended()[0].failures[1..], ["b did not end"]);
    }

    #[test]
    fn counts_an_example_as_one_test() {
        let mut progress = progress(true);
        assert!(ended(&mut progress, 0).ends_with("1 passed"));
    }
}
