//! The alerts for Prometheus and the queries of the dashboard, by promtool: their syntax, and when alerts fire.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::cargo::{output, root};

const MISSING: &str = "promtool is missing: run `cargo xtask ci alerts` on Debian, which unpacks it into target/tools, or \
                       apt-get install prometheus, or else take it from https://prometheus.io/download/";

pub(super) fn check() -> Result<()> {
    let telemetry = root().join("crates/syncguard-telemetry");
    check_alerts(&telemetry.join("prometheus"))?;
    check_dashboard(&fs::read_to_string(telemetry.join("grafana/dashboard.json"))?)
}

fn check_alerts(folder: &Path) -> Result<()> {
    check_rules(&folder.join("alerts.yml"))?;
    let mut test = Command::new(promtool()?);
    output(test.current_dir(folder).args(["test", "rules", "alerts.test.yml"])).map(drop)
}

fn check_rules(file: &Path) -> Result<()> {
    let mut check = Command::new(promtool()?);
    check.args(["check", "rules", "--lint=all", "--lint-fatal"]).arg(file);
    output(&mut check).map(drop)
}

/// Promtool knows no dashboards, so each query becomes a rule. A JSON text is YAML, too.
fn check_dashboard(dashboard: &str) -> Result<()> {
    let dashboard: Value = serde_json::from_str(dashboard)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let rule = |(number, target): (usize, &Value)| {
        let query = target["expr"].as_str().context("a target without a query")?;
        // Grafana fills these in.
        let query = query.replace("$__rate_interval", "5m").replace("$__range", "6h");
        Ok(json!({ "record": format!("panel:{number}"), "expr": query }))
    };
    let rules: Vec<Value> = targets.enumerate().map(rule).collect::<Result<_>>()?;
    ensure!(!rules.is_empty(), "no queries");
    let file = tempfile::NamedTempFile::new()?;
    let groups = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    fs::write(&file, groups.to_string())?;
    check_rules(file.path())
}

fn promtool() -> Result<PathBuf> {
    let tools = root().join("target/tools");
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .chain([tools.join("bin")])
        .map(|folder| folder.join("promtool"))
        .find(|program| program.is_file());
    if let Some(program) = found {
        return Ok(program);
    }
    ensure!(Path::new("/etc/debian_version").exists(), MISSING);
    unpack(&tools).context(MISSING)
}

/// Unpacks Debian's package, which needs no root. Its installation would start a server of its own.
fn unpack(tools: &Path) -> Result<PathBuf> {
    let bin = tools.join("bin");
    fs::create_dir_all(&bin)?;
    let folder = tempfile::tempdir_in(tools)?;
    let download = || output(apt_get(&["download", "prometheus"]).current_dir(&folder));
    // The package lists of a fresh machine are empty or old. Only root may update them.
    if let Err(error) = download() {
        output(&mut apt_get(&["update"])).context(error)?;
        download()?;
    }
    let package = fs::read_dir(&folder)?.next().context("apt-get downloaded nothing")??.path();
    let unpacked = folder.path().join("unpacked");
    output(Command::new("dpkg").arg("-x").args([&package, &unpacked]))?;
    let program = bin.join("promtool");
    fs::rename(unpacked.join("usr/bin/promtool"), &program)?;
    Ok(program)
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("LC_ALL", "C");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_rules_that_do_not_parse_or_do_not_fire() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let rules = |expression| {
            format!(
                "groups: [{{ name: g, rules: [{{ alert: A, expr: '{expression}', \
                 annotations: {{ summary: s }} }}] }}]"
            )
        };
        let test = "rule_files: [alerts.yml]\ntests:\n  - interval: 1m\n    input_series: \
                    [{ series: m, values: '2' }]\n    alert_rule_test: [{ alertname: A, \
                    eval_time: 0m, exp_alerts: [{ exp_annotations: { summary: s } }] }]\n";
        fs::write(folder.path().join("alerts.test.yml"), test)?;
        for (expression, fine) in [("m > 1", true), ("m >", false), ("m > 2", false)] {
            fs::write(folder.path().join("alerts.yml"), rules(expression))?;
            assert_eq!(check_alerts(folder.path()).is_ok(), fine, "{expression}");
        }
        Ok(())
    }

    #[test]
    fn refuses_a_dashboard_with_a_query_that_does_not_parse() {
        let dashboard = |query| {
            json!({ "panels": [{ "targets": [{ "expr": query }] }, { "type": "row" }] }).to_string()
        };
        check_dashboard(&dashboard("sum(rate(m{job=~\"$job\"}[$__rate_interval]))")).unwrap();
        check_dashboard(&dashboard("sum(rate(m[$__rate_interval])")).unwrap_err();
        check_dashboard("{}").unwrap_err();
    }
}
