//! The report of a run, for people and for programs.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Serialize;
use syncguard_history::Counts;

use crate::store::Store;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) store: String,
    pub(crate) seed: u64,
    /// The start, in UTC.
    pub(crate) began: String,
    pub(crate) seconds: u64,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    pub(crate) longest_outage_ms: u64,
    pub(crate) violations: Vec<String>,
    /// Required events that are missing.
    pub(crate) missing: Vec<String>,
    pub(crate) versions: Versions,
}

#[derive(Debug, Serialize)]
pub(crate) struct Versions {
    pub(crate) server: String,
    pub(crate) syncguard: String,
    pub(crate) revision: String,
    pub(crate) rustc: String,
}

impl Versions {
    pub(crate) fn ask(store: &Store) -> Result<Self> {
        Ok(Self {
            server: store.version()?,
            syncguard: env!("CARGO_PKG_VERSION").to_owned(),
            revision: said("git", &["rev-parse", "--short=12", "HEAD"]),
            rustc: said("rustc", &["--version"]),
        })
    }
}

/// The output of a program that may be missing.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    text.and_then(|text| String::from_utf8(text).ok())
        .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}

impl Report {
    pub(crate) fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.missing.is_empty()
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        serde_json::to_writer_pretty(&file, self)?;
        Ok(std::io::Write::write_all(&mut &file, b"\n")?)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, seed, seconds, counts, versions, .. } = self;
        writeln!(f, "{store}, seed {seed}, {seconds} s, {}", versions.server)?;
        writeln!(f, "  {counts}")?;
        write!(
            f,
            "  longest outage {} ms, {} violations",
            self.longest_outage_ms,
            self.violations.len()
        )?;
        for missing in &self.missing {
            write!(f, "\n  too little: {missing}")?;
        }
        Ok(())
    }
}
