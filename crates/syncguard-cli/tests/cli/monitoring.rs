//! `ls --longer-than` and `export`, for alerts.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use regex::Regex;
use syncguard_test_services::wait;

use crate::guide::{bin, shown};
use crate::harness::{Harness, LONG};

/// 75: a lock has been held for too long.
#[test]
fn a_lock_that_is_held_for_too_long_is_a_status() -> Result<()> {
    let harness = Harness::file()?;
    let holder = harness.holder("pay:1", &[])?;
    let done = harness.run(&["ls", "--longer-than", "1h"])?.expect(0)?;
    ensure!(done.stdout.is_empty(), "{done:?}");
    ensure!(done.stderr.contains("has been held for that long"), "{done:?}");
    wait::until("the age", LONG, || {
        Ok(harness.run(&["ls", "--longer-than", "500ms"])?.status == 75)
    })?;
    let young = harness.holder("pay:2", &[])?;
    let done = harness.run(&["ls", "pay*", "--longer-than", "500ms"])?.expect(75)?;
    ensure!(done.stdout.lines().count() >= 2 && done.stdout.contains(" pay:1\n"), "{done:?}");
    let json = harness.run(&["ls", "--json", "--longer-than", "500ms", "pay:1"])?.expect(75)?;
    ensure!(json.stdout.contains("\"key\":\"pay:1\""), "{json:?}");
    // Only locks with the prefix count.
    harness.run(&["ls", "other*", "--longer-than", "0"])?.expect(0)?;
    let all = harness.run(&["ls", "pay*"])?.expect(0)?;
    ensure!(all.stdout.lines().count() == 3, "{all:?}");
    for holder in [holder, young] {
        holder.end()?.expect(0)?;
    }
    harness.run(&["ls", "--longer-than", "0"])?.expect(0)?;
    ensure!(harness.run(&["ls"])?.expect(0)?.stderr == "syncguard: no lock is held\n");
    Ok(())
}

#[test]
fn ticks_are_exported_with_their_schedules() -> Result<()> {
    let harness = Harness::file()?;
    let cron = "0 0 29 2 *";
    let exported = || -> Result<Vec<(String, String, u64)>> {
        let ticks = [
            "export",
            "--tz",
            "Asia/Tokyo",
            "--tick",
            &format!("a=b={cron}"),
            "--tick",
            "c=0 0 1 1 *",
        ];
        let text = harness.run(&ticks)?.expect(0)?.stdout;
        let sample =
            Regex::new(r#"(?m)^syncguard_tick_(\w+)_timestamp_seconds\{key="(.*)"\} (\d+)$"#)?;
        let all = sample.captures_iter(&text);
        all.map(|it| Ok((it[1].to_owned(), it[2].to_owned(), it[3].parse()?))).collect()
    };
    let names = |all: &[(String, String, u64)]| -> Vec<String> {
        all.iter().map(|(name, key, _)| format!("{name} {key}")).collect()
    };
    ensure!(names(&exported()?) == ["due a=b", "due c"]);
    let run = |line| {
        let options = ["run", "--tick", cron, "--tz", "Asia/Tokyo", "--max-lateness", "9years"];
        let attempts = ["--attempts", "2", "--retry-after", "0", "a=b", "--", "sh", "-c", line];
        harness.run(&[&options[..], &attempts].concat())
    };
    run("exit 1")?.expect(1)?;
    ensure!(names(&exported()?) == ["due a=b", "due c", "begun a=b"]);
    run("echo $SYNCGUARD_TICK")?.expect(0)?;
    let all = exported()?;
    ensure!(names(&all) == ["due a=b", "due c", "begun a=b", "done a=b"]);
    ensure!(all[0].2 == all[2].2 && all[0].2 == all[3].2, "{all:?}");
    // The evening before in UTC.
    ensure!(all[0].2 % 86_400 == 15 * 3600, "{all:?}");
    for wrong in ["job", "job=* * *", "job=0 0 31 2 *"] {
        harness.run(&["export", "--tick", wrong])?.expect(64)?;
    }
    Ok(())
}

/// A new or renamed metric has to be on the dashboard; a test of the dashboard knows these names alone.
#[test]
fn the_dashboard_shows_each_metric() -> Result<()> {
    let telemetry = Path::new(env!("CARGO_MANIFEST_DIR")).join("../syncguard-telemetry");
    let dashboard = fs::read_to_string(telemetry.join("grafana/dashboard.json"))?;
    let ticks = ["export", "--tick", "job=* * * * *"];
    let metrics = Harness::file()?.run(&ticks)?.expect(0)?.stdout;
    ensure!(metrics.matches("# TYPE ").count() == 7, "{metrics}");
    for line in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().context("a name")?;
        ensure!(dashboard.contains(name), "{name}");
    }
    Ok(())
}

/// The line of the guide for the textfile collector.
#[test]
fn the_line_of_the_guide_replaces_the_file_at_once() -> Result<()> {
    let page = fs::read_to_string(shown("../shell.md"))?;
    let line = page.lines().find_map(|line| line.strip_prefix("$ syncguard export"));
    let line = format!("syncguard export{}", line.context("the line")?);
    ensure!(line.matches("/var/lib/node_exporter/").count() == 3, "{line}");
    let (harness, folder) = (Harness::file()?, tempfile::tempdir()?);
    let line = line.replace("/var/lib/node_exporter", &folder.path().display().to_string());
    let holder = harness.holder("k", &[])?;
    let run = |store: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &line]).env("SYNCGUARD_STORE", store);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin().display())).output()
    };
    ensure!(run(&harness.url)?.status.success());
    let file = folder.path().join("locks.prom");
    let text = fs::read_to_string(&file)?;
    ensure!(text.contains("\nsyncguard_lock_info{key=\"k\","), "{text}");
    // A store that is away leaves the old file, whose age the collector exports.
    ensure!(run("redis://127.0.0.1:1")?.status.code() == Some(69));
    ensure!(fs::read_to_string(&file)? == text);
    holder.end()?.expect(0).map(drop)
}
