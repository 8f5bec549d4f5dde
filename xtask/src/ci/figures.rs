//! What the guide says of the soak runs is what their reports say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::cargo::root;

/// Where the figures are told.
const PAGE: &str = "crates/syncguard/src/guide/how_it_is_tested.md";
/// Where they come from.
const REPORTS: &str = "tests/soak/reports";
/// The stores of which there has to be a report.
const STORES: [&str; 6] =
    ["redis", "redis-cluster", "postgres", "pgbouncer", "firestore", "sqlite"];
/// What page and README say of each of them.
const OPERATIONS: u64 = 200_000;
const FAULTS: u64 = 2_000;

pub(super) fn check() -> Result<()> {
    let page = fs::read_to_string(root().join(PAGE)).context(PAGE)?;
    let mut missing = Vec::new();
    for store in STORES {
        let path = root().join(REPORTS).join(format!("{store}.json"));
        let report = read(&path).with_context(|| format!("{}", path.display()))?;
        ensure!(report.violations == 0, "{store}: a report with violations");
        ensure!(
            report.operations >= OPERATIONS && report.faults >= FAULTS,
            "{store}: {} operations and {} faults are less than the guide says",
            report.operations,
            report.faults
        );
        missing
            .extend(report.rows().into_iter().filter(|row| !page.lines().any(|line| line == row)));
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!("{PAGE} does not say what {REPORTS} do:\n{}", missing.join("\n"))
}

/// What the page tells of a report.
struct Report {
    store: String,
    server: String,
    operations: u64,
    granted: u64,
    faults: u64,
    by_kind: BTreeMap<String, u64>,
    longest_outage_ms: u64,
    minutes: u64,
    violations: usize,
}

fn read(path: &Path) -> Result<Report> {
    let report: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
    let number = |field: &str| report[field].as_u64().with_context(|| field.to_owned());
    let kinds = report["faults_by_kind"].as_object().context("faults_by_kind")?;
    let by_kind = kinds
        .iter()
        .map(|(kind, count)| Ok((kind.clone(), count.as_u64().context("a number")?)))
        .collect::<Result<_>>()?;
    Ok(Report {
        store: report["store"].as_str().context("a store")?.to_owned(),
        server: report["versions"]["server"].as_str().context("a server")?.to_owned(),
        operations: number("operations")?,
        granted: number("granted")?,
        faults: number("faults")?,
        by_kind,
        longest_outage_ms: number("longest_outage_ms")?,
        minutes: number("seconds")?.div_ceil(60),
        violations: report["violations"].as_array().context("violations")?.len(),
    })
}

impl Report {
    /// Its row in the table of runs, and its row in the table of faults.
    fn rows(&self) -> [String; 2] {
        let Self { store, server, minutes, .. } = self;
        let kinds = self.by_kind.iter().map(|(kind, count)| format!("{} {kind}", spaced(*count)));
        [
            format!(
                "| {store} | {server} | {minutes} min | {} | {} | {} | {} ms | {} |",
                spaced(self.operations),
                spaced(self.granted),
                spaced(self.faults),
                spaced(self.longest_outage_ms),
                self.violations
            ),
            format!("| {store} | {} |", kinds.collect::<Vec<_>>().join(", ")),
        ]
    }
}

/// 1234567 as `1 234 567`.
fn spaced(number: u64) -> String {
    let digits = number.to_string();
    let mut spaced = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            spaced.push(' ');
        }
        spaced.push(digit);
    }
    spaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_becomes_two_rows() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("redis.json");
        fs::write(
            &file,
            r#"{"store":"redis","operations":1234567,"granted":999,"faults":2000,"faults_by_kind":{"Cut":1999,"Killed":1},
            "longest_outage_ms":6780,"seconds":301,"violations":[],"versions":{"server":"Redis 7.0.15"}}"#,
        )?;
        assert_eq!(
            read(&file)?.rows(),
            [
                "| redis | Redis 7.0.15 | 6 min | 1 234 567 | 999 | 2 000 | 6 780 ms | 0 |",
                "| redis | 1 999 Cut, 1 Killed |"
            ]
        );
        Ok(())
    }
}
