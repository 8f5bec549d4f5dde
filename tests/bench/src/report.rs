//! The results of a run: the ratios, and the missed targets.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::{Value as Json, json};

/// The results of one run.
#[derive(Default)]
pub struct Report {
    ratios: Vec<Json>,
    targets: usize,
    missed: Vec<String>,
}

impl Report {
    /// Notes for `cargo xtask bench plot` how many cycles SyncGuard does for each cycle of `other`, with this number of
    /// callers at once.
    pub fn ratio(&mut self, callers: usize, other: &str, ratio: f64) {
        self.ratios.push(json!({ "callers": callers, "other": other, "ratio": ratio }));
    }

    /// A target that `is` meets if it is `least` or more.
    pub fn at_least(&mut self, what: &str, is: f64, least: f64) {
        self.target(&format!("{what}: {is:.2}, at least {least:.2}"), is >= least);
    }

    /// A target that `is` meets if it is `most` or less.
    pub fn at_most(&mut self, what: &str, is: f64, most: f64) {
        self.target(&format!("{what}: {is:.2}, at most {most:.2}"), is <= most);
    }

    fn target(&mut self, target: &str, holds: bool) {
        self.targets += 1;
        println!("    {}  {target}", if holds { "holds" } else { "MISSED" });
        if !holds {
            self.missed.push(target.to_owned());
        }
    }

    /// Prints the missed targets, and writes them and the ratios to `target/bench/NAME.json`.
    pub fn end(self, name: &str, check: bool) -> Result<()> {
        let Self { ratios, targets, missed } = self;
        let report = json!({ "ratios": ratios, "missed": missed });
        let file = folder()?.join(format!("{name}.json"));
        std::fs::write(file, serde_json::to_string_pretty(&report)?)?;
        println!("\n{} of {targets} targets missed", missed.len());
        for missed in &missed {
            println!("  {missed}");
        }
        ensure!(!check || missed.is_empty(), "{} targets missed", missed.len());
        Ok(())
    }
}

/// The folder for reports, and for files that have to be on a disk.
pub fn folder() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
