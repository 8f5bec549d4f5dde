//! The options of a benchmark.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// The arguments that all benchmarks understand, and those of one benchmark.
pub struct Options {
    /// True if a missed target ends the benchmark with an error.
    pub check: bool,
    /// True for shorter rounds, which are noisier.
    pub quick: bool,
    own: Vec<(String, Option<String>)>,
}

impl Options {
    /// Reads the program's arguments. `flags` and `values` are the benchmark's own options, without and with a
    /// value.
    ///
    /// # Errors
    ///
    /// If there is another one, or if a value is missing.
    pub fn parse(flags: &[&str], values: &[&str]) -> Result<Self> {
        let mut this = Self { check: false, quick: false, own: Vec::new() };
        let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--");
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--check" => this.check = true,
                "--quick" => this.quick = true,
                flag if flags.contains(&flag) => this.own.push((argument, None)),
                name if values.contains(&name) => {
                    let value = arguments.next().with_context(|| format!("{name} has no value"))?;
                    this.own.push((argument, Some(value)));
                }
                _ => bail!("{argument}: there are {}", known(flags, values)),
            }
        }
        Ok(this)
    }

    /// Returns true if a flag was given.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.own.iter().any(|(name, _)| name == flag)
    }

    /// The value that was given with an option.
    #[must_use]
    pub fn value(&self, option: &str) -> Option<&str> {
        let (_, value) = self.own.iter().find(|(name, _)| name == option)?;
        value.as_deref()
    }

    /// Returns true if a part is wanted: the option is not given, or `holds` for its value.
    pub fn wants(&self, option: &str, holds: impl FnOnce(&str) -> bool) -> bool {
        self.value(option).is_none_or(holds)
    }

    /// `quick` or `otherwise`, in ms.
    #[must_use]
    pub fn millis(&self, quick: u64, otherwise: u64) -> Duration {
        Duration::from_millis(if self.quick { quick } else { otherwise })
    }
}

fn known(flags: &[&str], values: &[&str]) -> String {
    let flags = ["--check", "--quick"].iter().chain(flags).map(|flag| (*flag).to_owned());
    let values = values.iter().map(|name| format!("{name} VALUE"));
    flags.chain(values).collect::<Vec<_>>().join(", ")
}
