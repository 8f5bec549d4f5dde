//! The alerts for Prometheus, by promtool: their syntax, and when they fire.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo::{output, root};

const MISSING: &str = "promtool is missing: run `cargo xtask ci alerts` on Debian, which unpacks it into target/tools, or \
                       apt-get install prometheus, or else take it from https://prometheus.io/download/";

pub(super) fn check() -> Result<()> {
    check_folder(&root().join("crates/syncguard-telemetry/prometheus"))
}

fn check_folder(folder: &Path) -> Result<()> {
    let promtool = program()?;
    for arguments in [
        ["check", "rules", "--lint=all", "--lint-fatal", "alerts.yml"].as_slice(),
        &["test", "rules", "alerts.test.yml"],
    ] {
        output(Command::new(&promtool).current_dir(folder).args(arguments))?;
    }
    Ok(())
}

fn program() -> Result<PathBuf> {
    let tools = root().join("target/tools/prometheus");
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .chain([tools.join("usr/bin")])
        .map(|folder| folder.join("promtool"))
        .find(|program| program.is_file());
    if let Some(program) = found {
        return Ok(program);
    }
    ensure!(Path::new("/etc/debian_version").exists(), MISSING);
    unpack(&tools).context(MISSING)?;
    Ok(tools.join("usr/bin/promtool"))
}

/// Unpacks Debian's package, which needs no root. Its installation would start a server of its own.
fn unpack(into: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let download = || output(apt_get(&["download", "prometheus"]).current_dir(&folder));
    // The package lists of a fresh machine are empty or old. Without root there is no update.
    if let Err(error) = download() {
        output(&mut apt_get(&["update"])).context(error)?;
        download()?;
    }
    let package = fs::read_dir(&folder)?.next().context("apt-get downloaded nothing")??.path();
    // A process that is stopped leaves no half of a program.
    let unpacked = folder.path().join("unpacked");
    output(Command::new("dpkg").arg("-x").args([&package, &unpacked]))?;
    let program = into.join("usr/bin");
    fs::create_dir_all(&program)?;
    fs::copy(unpacked.join("usr/bin/promtool"), program.join("promtool.part"))?;
    fs::rename(program.join("promtool.part"), program.join("promtool"))?;
    Ok(())
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
            assert_eq!(check_folder(folder.path()).is_ok(), fine, "{expression}");
        }
        Ok(())
    }
}
