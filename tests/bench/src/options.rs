//! The options of a benchmark.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// The arguments that all benchmarks understand, and those of one benchmark.
pub struct Options {
    /// True if a missed target ends the benchmark with an error.
    pub check: bool,
    /// True if the pages get their figures from this run.
    pub write: bool,
    own: Vec<(String, String)>,
}

impl Options {
    /// Reads the program's arguments. `own` are the benchmark's own options beside `--seconds`, each with a value.
    pub fn parse(own: &[&str]) -> Result<Self> {
        let mut this = Self { check: false, write: false, own: Vec::new() };
        let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--");
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--check" => this.check = true,
                "--write" if own.contains(&"--write") => this.write = true,
                name => {
                    let is_known = name == "--seconds" || own.contains(&name);
                    ensure!(is_known, "{name}: there are --check, --seconds, {own:?}");
                    let value = arguments.next().with_context(|| format!("{name} has no value"))?;
                    this.own.push((argument, value));
                }
            }
        }
        Ok(this)
    }

    /// Returns true if a part is wanted: the option is not given, or `holds` for its value.
    pub fn wants(&self, option: &str, holds: impl FnOnce(&str) -> bool) -> bool {
        self.value(option).is_none_or(holds)
    }

    /// The value of an option.
    pub fn value(&self, option: &str) -> Option<&str> {
        Some(&self.own.iter().find(|(name, _)| name == option)?.1)
    }

    /// The time of a round: `--seconds`, or else this time in ms.
    pub fn time(&self, otherwise: u64) -> Result<Duration> {
        match self.value("--seconds") {
            Some(seconds) => Ok(Duration::try_from_secs_f64(seconds.parse()?)?),
            None => Ok(Duration::from_millis(otherwise)),
        }
    }
}
