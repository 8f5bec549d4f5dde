//! The targets of a benchmark, and the missed ones.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde_json::{Value as Json, json};

/// The targets of one run.
#[derive(Default)]
pub struct Targets {
    /// True if met targets are not printed.
    only_missed: bool,
    count: usize,
    missed: Vec<String>,
    ratios: Vec<Json>,
}

impl Targets {
    /// Prints missed targets only: what is measured stands in a table of the benchmark's own.
    #[must_use]
    pub fn only_missed() -> Self {
        Self { only_missed: true, ..Self::default() }
    }

    /// A target that `is` meets if it is `least` or more.
    pub fn at_least(&mut self, what: &str, is: f64, least: f64) {
        self.target(what, is, "at least", least, is >= least);
    }

    /// A target that `is` meets if it is `most` or less.
    pub fn at_most(&mut self, what: &str, is: f64, most: f64) {
        self.target(what, is, "at most", most, is <= most);
    }

    /// Notes for `cargo xtask bench plot` how many cycles SyncGuard does for each cycle of `other`, with this number of
    /// callers at once.
    pub fn ratio(&mut self, callers: usize, other: &str, ratio: f64) {
        self.ratios.push(json!({ "callers": callers, "other": other, "ratio": ratio }));
    }

    fn target(&mut self, what: &str, is: f64, bound: &str, target: f64, holds: bool) {
        self.count += 1;
        let verdict = if holds { "holds" } else { "MISSED" };
        let line = format!("{what}: {is:.2}, {bound} {target}");
        if !holds || !self.only_missed {
            println!("    {verdict}  {line}");
        }
        if !holds {
            self.missed.push(line);
        }
    }

    /// Prints how many targets there were and which were missed, and writes `report` with them to
    /// `target/bench/NAME.json`.
    ///
    /// # Errors
    ///
    /// If `check` is set and a target was missed, or if the file cannot be written.
    pub fn end(self, name: &str, mut report: Json, check: bool) -> Result<()> {
        report["missed"] = json!(self.missed);
        report["ratios"] = json!(self.ratios);
        let file = folder()?.join(format!("{name}.json"));
        std::fs::write(file, serde_json::to_string_pretty(&report)?)?;
        println!("\n{} of {} targets missed", self.missed.len(), self.count);
        for missed in &self.missed {
            println!("  {missed}");
        }
        if check && !self.missed.is_empty() {
            bail!("{} targets missed", self.missed.len());
        }
        Ok(())
    }
}

/// The folder for reports, and for files that have to be on a disk.
///
/// # Errors
///
/// If it cannot be made.
pub fn folder() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
