//! The missed targets of a run.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

/// The targets of one run.
#[derive(Default)]
pub struct Report {
    targets: usize,
    missed: Vec<String>,
}

impl Report {
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

    /// Prints the missed targets. With `check`, they are an error.
    pub fn end(self, check: bool) -> Result<()> {
        let Self { targets, missed } = self;
        println!("\n{} of {targets} targets missed", missed.len());
        for missed in &missed {
            println!("  {missed}");
        }
        ensure!(!check || missed.is_empty(), "{} targets missed", missed.len());
        Ok(())
    }
}

/// The folder for files that have to be on a disk.
pub fn folder() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
