//! The guide's figures of the soak, the simulation and the models agree with their reports.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::cargo::root;

/// The pages with the figures.
const PAGE: &str = "crates/syncguard/src/guide/how_it_is_tested.md";
/// The folders of the reports.
const REPORTS: &str = "tests/soak/reports";
/// The stores that need a report.
const STORES: [&str; 6] =
    ["redis", "redis-cluster", "postgres", "pgbouncer", "firestore", "sqlite"];
/// The simulation's.
const SIMULATED: &str = "tests/simulation/reports";
/// The models'.
const MODELS: &str = "tests/model/reports/models.json";
/// The figures of each store's soak on the page and in the README.
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
        missing.extend(Some(report.row()).filter(|row| !page.lines().any(|line| line == row)));
    }
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    missing.extend(simulated()?.into_iter().filter(|told| !text.contains(told)));
    missing.extend(models()?.into_iter().filter(|row| !page.lines().any(|line| line == row)));
    if missing.is_empty() {
        return Ok(());
    }
    bail!("{PAGE} does not say what the reports do:\n{}", missing.join("\n"))
}

/// The figures of each report of the simulation on the page.
fn simulated() -> Result<Vec<String>> {
    let files = fs::read_dir(root().join(SIMULATED)).context(SIMULATED)?;
    let reports = files.map(|file| {
        let path = file?.path();
        let report = read_json(&path)?;
        ensure!(is_empty(&report["violations"]), "{}: violations", path.display());
        told_of_simulation(&report).with_context(|| format!("{}", path.display()))
    });
    let reports = reports.collect::<Result<Vec<_>>>()?;
    ensure!(!reports.is_empty(), "there is no report in {SIMULATED}");
    Ok(reports)
}

fn told_of_simulation(report: &Value) -> Result<String> {
    let [operations, granted, faults] =
        ["operations", "granted", "faults"].map(|field| number(report, field));
    Ok(format!(
        "{} requests, {} locks granted, {} faults",
        spaced(operations?),
        spaced(granted?),
        spaced(faults?)
    ))
}

/// The rows of the table of models.
fn models() -> Result<Vec<String>> {
    let report = read_json(&root().join(MODELS))?;
    let runs = report["runs"].as_array().context("runs")?;
    ensure!(!runs.is_empty(), "{MODELS}: no runs");
    runs.iter().map(|run| row_of_model(run).with_context(|| MODELS.to_owned())).collect()
}

fn row_of_model(run: &Value) -> Result<String> {
    let name = run["name"].as_str().context("a name")?;
    ensure!(run["is_complete"] == true, "{name}: not all states were seen");
    ensure!(is_empty(&run["broken"]), "{name}: a rule is broken");
    let [extends, cleanings, states] =
        ["extends", "cleanings", "states"].map(|field| number(run, field));
    Ok(format!("| {name} | {} | {} | {} |", extends?, cleanings?, spaced(states?)))
}

/// The figures of a report on the page.
struct Report {
    store: String,
    server: String,
    operations: u64,
    granted: u64,
    faults: u64,
    longest_outage_ms: u64,
    minutes: u64,
    violations: usize,
}

fn read(path: &Path) -> Result<Report> {
    let report = read_json(path)?;
    let number = |field: &str| number(&report, field);
    Ok(Report {
        store: report["store"].as_str().context("a store")?.to_owned(),
        server: report["versions"]["server"].as_str().context("a server")?.to_owned(),
        operations: number("operations")?,
        granted: number("granted")?,
        faults: number("faults")?,
        longest_outage_ms: number("longest_outage_ms")?,
        minutes: number("seconds")?.div_ceil(60),
        violations: report["violations"].as_array().context("violations")?.len(),
    })
}

fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn number(report: &Value, field: &str) -> Result<u64> {
    report[field].as_u64().with_context(|| field.to_owned())
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_some_and(Vec::is_empty)
}

impl Report {
    /// Its row in the table of runs.
    fn row(&self) -> String {
        let Self { store, server, minutes, .. } = self;
        format!(
            "| {store} | {server} | {minutes} min | {} | {} | {} | {} ms | {} |",
            spaced(self.operations),
            spaced(self.granted),
            spaced(self.faults),
            spaced(self.longest_outage_ms),
            self.violations
        )
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
    fn a_report_becomes_a_row() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("redis.json");
        fs::write(
            &file,
            r#"{"store":"redis","operations":1234567,"granted":999,"faults":2000,
            "longest_outage_ms":6780,"seconds":301,"violations":[],"versions":{"server":"Redis 7.0.15"}}"#,
        )?;
        assert_eq!(
            read(&file)?.row(),
            "| redis | Redis 7.0.15 | 6 min | 1 234 567 | 999 | 2 000 | 6 780 ms | 0 |"
        );
        Ok(())
    }

    #[test]
    fn a_simulation_is_told_in_a_sentence() -> Result<()> {
        let report: Value = serde_json::from_str(
            r#"{"operations":1000000,"granted":2,"faults":1500,"violations":[]}"#,
        )?;
        let told = "1 000 000 requests, 2 locks granted, 1 500 faults";
        assert_eq!(told_of_simulation(&report)?, told);
        Ok(())
    }

    #[test]
    fn a_model_that_is_not_complete_or_broken_has_no_row() -> Result<()> {
        let run = |complete: bool, broken: &str| {
            serde_json::from_str::<Value>(&format!(
                r#"{{"name":"Redis","extends":2,"cleanings":1,"states":659639,"is_complete":{complete},"broken":[{broken}]}}"#
            ))
        };
        assert_eq!(row_of_model(&run(true, "")?)?, "| Redis | 2 | 1 | 659 639 |");
        assert!(row_of_model(&run(false, "")?).is_err());
        assert!(row_of_model(&run(true, "\"one holder\"")?).is_err());
        Ok(())
    }
}
