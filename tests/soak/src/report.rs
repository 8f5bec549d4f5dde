//! The report of a run, for people and for programs.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use serde::Serialize;
use syncguard_history::Counts;

use crate::store::Store;

/// The report of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) store: String,
    pub(crate) seed: u64,
    /// The start, in UTC.
    pub(crate) began: String,
    pub(crate) seconds: u64,
    /// Requests to the backend, answered or not, that were checked.
    pub(crate) operations: u64,
    pub(crate) unknown_outcomes: u64,
    pub(crate) granted: u64,
    pub(crate) contended: u64,
    pub(crate) released: u64,
    pub(crate) extended: u64,
    /// Extends whose expected expiry was wrong.
    pub(crate) mismatched: u64,
    /// Releases and extends of a lock that was over.
    pub(crate) too_late: u64,
    /// Writes under a lock that a register accepted.
    pub(crate) writes: u64,
    /// Writes that a register refused because of their fence.
    pub(crate) refused_writes: u64,
    pub(crate) processes: u64,
    pub(crate) faults: u64,
    pub(crate) faults_by_kind: BTreeMap<String, u64>,
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

/// The facts of a run besides its counts.
pub(crate) struct Run {
    pub(crate) store: String,
    pub(crate) seed: u64,
    pub(crate) began: SystemTime,
    pub(crate) lasted: Duration,
    pub(crate) longest_outage_ms: u64,
    pub(crate) violations: Vec<String>,
    pub(crate) missing: Vec<String>,
    pub(crate) versions: Versions,
}

impl Report {
    pub(crate) fn new(run: Run, counts: &Counts) -> Self {
        let faults_by_kind: BTreeMap<String, u64> =
            counts.faults.iter().map(|(fault, count)| (format!("{fault:?}"), *count)).collect();
        Self {
            store: run.store,
            seed: run.seed,
            began: humantime::format_rfc3339_seconds(run.began).to_string(),
            seconds: run.lasted.as_secs(),
            operations: counts.answered + counts.unknown,
            unknown_outcomes: counts.unknown,
            granted: counts.granted,
            contended: counts.contended,
            released: counts.released,
            extended: counts.extended,
            mismatched: counts.mismatched,
            too_late: counts.too_late,
            writes: counts.written,
            refused_writes: counts.rejected,
            processes: counts.processes,
            faults: faults_by_kind.values().sum(),
            faults_by_kind,
            longest_outage_ms: run.longest_outage_ms,
            violations: run.violations,
            missing: run.missing,
            versions: run.versions,
        }
    }

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
        let Self { store, seed, seconds, operations, granted, faults, .. } = self;
        writeln!(f, "{store}, seed {seed}, {seconds} s, {}", self.versions.server)?;
        writeln!(
            f,
            "  {operations} operations, {} of unknown outcome; {granted} locks granted, {} asked for while held",
            self.unknown_outcomes, self.contended
        )?;
        writeln!(
            f,
            "  {} released, {} extended, {} too late; {} writes taken, {} refused by their fence",
            self.released, self.extended, self.too_late, self.writes, self.refused_writes
        )?;
        let kinds: Vec<_> =
            self.faults_by_kind.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        writeln!(f, "  {faults} faults: {}", kinds.join(", "))?;
        write!(
            f,
            "  {} processes, longest outage {} ms, {} violations",
            self.processes,
            self.longest_outage_ms,
            self.violations.len()
        )?;
        for missing in &self.missing {
            write!(f, "\n  too little: {missing}")?;
        }
        Ok(())
    }
}
