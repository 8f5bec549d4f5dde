//! How long each test program took.

use std::fmt;
use std::time::Duration;

/// What ran, one after the other, as cargo says it.
#[derive(Debug, Default)]
pub(super) struct Programs {
    done: Vec<(String, Duration)>,
    /// The one that runs, and when it started.
    running: Option<(String, Duration)>,
}

impl Programs {
    /// Notes a line of cargo's output, at this time since the start.
    pub(super) fn add_line(&mut self, line: &str, now: Duration) {
        if let Some(name) = started_by(line) {
            self.end(now);
            self.running = Some((name, now));
        }
    }

    /// The last one is over.
    pub(super) fn end(&mut self, now: Duration) {
        if let Some((name, started)) = self.running.take() {
            self.add(name, now.saturating_sub(started));
        }
    }

    pub(super) fn add(&mut self, name: String, took: Duration) {
        self.done.push((name, took));
    }
}

/// The program that starts to run with this line.
fn started_by(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package}: doc tests"));
    }
    // "Running unittests src/lib.rs (target/debug/deps/syncguard_core-0123456789abcdef)"
    let (source, program) = line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
    let file = program.rsplit(['/', '\\']).next()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(format!("{name}: {source}"))
}

/// The slowest first; what took less than a second in one line.
impl fmt::Display for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<_> = self.done.iter().collect();
        sorted.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        let slow = sorted.partition_point(|(_, took)| *took >= Duration::from_secs(1));
        let (slow, quick) = sorted.split_at(slow);
        for (name, took) in slow {
            writeln!(f, "{:8.1} s  {name}", took.as_secs_f64())?;
        }
        let rest: Duration = quick.iter().map(|(_, took)| *took).sum();
        writeln!(f, "{:8.1} s  {} others, below a second each", rest.as_secs_f64(), quick.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_slowest_first() {
        let mut programs = Programs::default();
        for (at, line) in [
            (1000, "   Compiling a v0.1.0 (/a)"),
            (5000, "     Running unittests src/lib.rs (target/debug/deps/a_core-0123456789abcdef)"),
            (5100, "test result: ok. 2 passed; 0 failed; finished in 0.00s"),
            (5200, "     Running tests/redis/main.rs (target/debug/deps/redis-0123456789abcdef)"),
            (9000, "test Running (well) ... ok"),
            (10_200, "   Doc-tests a_core"),
        ] {
            programs.add_line(line, Duration::from_millis(at));
        }
        programs.end(Duration::from_millis(11_700));
        programs.add("example quick".to_owned(), Duration::from_millis(300));
        assert_eq!(
            programs.to_string(),
            "     5.0 s  redis: tests/redis/main.rs\n     1.5 s  a_core: doc tests\n     \
             0.5 s  2 others, below a second each\n"
        );
    }
}
