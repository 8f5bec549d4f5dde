//! `ls --longer-than` and `export`, for alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_test_services::redis::RedisServer;
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
    Ok(())
}

/// The labels of a sample.
type Labels = BTreeMap<String, String>;

/// A text in the exposition format of Prometheus 0.0.4: the samples of each metric.
#[derive(Debug, Default)]
struct Metrics(BTreeMap<String, Vec<(Labels, f64)>>);

impl Metrics {
    /// # Errors
    ///
    /// Fails if the text is not as the format, or `promtool check metrics`, wants it.
    fn parse(text: &str) -> Result<Self> {
        ensure!(text.ends_with('\n'), "the last line is not ended: {text}");
        let mut metrics = Self::default();
        let (mut helps, mut series) = (BTreeSet::new(), BTreeSet::new());
        let mut last = String::new();
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# HELP ") {
                let (name, help) = comment.split_once(' ').context("a help")?;
                ensure!(!help.is_empty() && helps.insert(name.to_owned()), "{line}");
            } else if let Some(comment) = line.strip_prefix("# TYPE ") {
                let (name, kind) = comment.split_once(' ').context("a type")?;
                ensure!(is_name(name, true) && kind == "gauge" && helps.contains(name), "{line}");
                ensure!(metrics.0.insert(name.to_owned(), Vec::new()).is_none(), "{line}");
                name.clone_into(&mut last);
            } else {
                let (name, labels, value) = sample(line)?;
                // The samples of a metric are together, below its type.
                ensure!(name == last, "{line}");
                ensure!(series.insert((name.clone(), labels.clone())), "twice: {line}");
                metrics.0.get_mut(&name).context("a type")?.push((labels, value));
            }
        }
        Ok(metrics)
    }

    /// The value of a metric for a key.
    fn of_key(&self, name: &str, key: &str) -> Result<f64> {
        let samples = self.0.get(name).with_context(|| name.to_owned())?;
        let found = samples.iter().find(|(labels, _)| labels.get("key").is_some_and(|k| k == key));
        Ok(found.with_context(|| format!("{key}: {self:?}"))?.1)
    }
}

/// Returns whether this is the name of a metric, which may contain colons, or of a label.
fn is_name(name: &str, may_have_colons: bool) -> bool {
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.chars().all(|char| {
            char.is_ascii_alphanumeric() || char == '_' || (may_have_colons && char == ':')
        })
}

/// Parses `name{label="value",…} 1.5` and `name 1.5`.
fn sample(line: &str) -> Result<(String, Labels, f64)> {
    let mut labels = Labels::new();
    let end = line.find(['{', ' ']).context("a value")?;
    let (name, mut rest) = line.split_at(end);
    ensure!(is_name(name, true), "{line}");
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").with_context(|| line.to_owned())?;
            ensure!(is_name(label, false), "{line}");
            let (value, after) = quoted(after).with_context(|| line.to_owned())?;
            ensure!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            match after.strip_prefix(',') {
                Some(after) => rest = after,
                None => {
                    rest = after.strip_prefix('}').with_context(|| line.to_owned())?;
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').with_context(|| line.to_owned())?;
    Ok((name.to_owned(), labels, value.parse().with_context(|| line.to_owned())?))
}

/// Reads up to the closing quote. Returns the value and the text behind it.
fn quoted(text: &str) -> Result<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((place, char)) = chars.next() {
        match char {
            '"' => return Ok((value, &text[place + 1..])),
            '\\' => match chars.next() {
                Some((_, char @ ('\\' | '"'))) => value.push(char),
                Some((_, 'n')) => value.push('\n'),
                other => bail!("an escape that the format does not know: {other:?}"),
            },
            char => value.push(char),
        }
    }
    bail!("no closing quote")
}

#[test]
fn the_parser_refuses_what_the_format_does_not_have() -> Result<()> {
    let head = "# HELP m Text.\n# TYPE m gauge\n";
    Metrics::parse(&format!("{head}m{{key=\"a\\\\\\\"\\n\"}} 1\nm 2.5\n"))?;
    for wrong in [
        "m{key=\"a\"} 1",
        "m{key=\"a} 1\n",
        "m{key=\"\\u\"} 1\n",
        "m{key=\"a\"}1\n",
        "m{1=\"a\"} 1\n",
        "m{key=\"a\"} x\n",
        "m 1\nm 1\n",
        "other 1\n",
        "# TYPE m gauge\n",
        "# TYPE other gauge\n",
    ] {
        ensure!(Metrics::parse(&format!("{head}{wrong}")).is_err(), "{wrong}");
    }
    Ok(())
}

fn is_one(value: f64) -> bool {
    (value - 1.0).abs() < f64::EPSILON
}

fn exports(harness: &Harness) -> Result<()> {
    let empty = Metrics::parse(&harness.run(&["export"])?.expect(0)?.stdout)?;
    let names = [
        "syncguard_lock_age_seconds",
        "syncguard_lock_expires_in_seconds",
        "syncguard_lock_info",
        "syncguard_lock_records_corrupt",
    ];
    ensure!(empty.0.keys().eq(names), "{empty:?}");
    ensure!(empty.0[names[3]] == [(Labels::new(), 0.0)], "{empty:?}");

    let odd = "pay:\"b\\n\\\u{1b}\u{202e}é{,}";
    let first = harness.holder("pay:a", &["--ttl", "1h"])?;
    let second = harness.holder(odd, &["--ttl", "1h"])?;
    let third = harness.holder("other", &[])?;
    std::thread::sleep(Duration::from_millis(20));
    let metrics = Metrics::parse(&harness.run(&["export", "pay:*"])?.expect(0)?.stdout)?;
    for key in ["pay:a", odd] {
        ensure!(is_one(metrics.of_key(names[2], key)?), "{metrics:?}");
        let (age, left) = (metrics.of_key(names[0], key)?, metrics.of_key(names[1], key)?);
        ensure!(age > 0.0 && age < 600.0 && left > 3000.0 && left <= 3601.0, "{metrics:?}");
    }
    for name in &names[..3] {
        let samples = &metrics.0[*name];
        ensure!(samples.len() == 2, "{metrics:?}");
        for (labels, _) in samples {
            ensure!(labels.keys().eq(["holder", "key"]) && !labels["holder"].is_empty());
        }
    }
    for holder in [first, second, third] {
        holder.end()?.expect(0)?;
    }
    Ok(())
}

/// A new or renamed metric has to be on the dashboard; a test of the dashboard knows these names alone.
#[test]
fn the_dashboard_shows_each_metric() -> Result<()> {
    let telemetry = Path::new(env!("CARGO_MANIFEST_DIR")).join("../syncguard-telemetry");
    let dashboard = fs::read_to_string(telemetry.join("grafana/dashboard.json"))?;
    let metrics = Metrics::parse(&Harness::file()?.run(&["export"])?.expect(0)?.stdout)?;
    for name in metrics.0.keys() {
        ensure!(dashboard.contains(name), "{name}");
    }
    Ok(())
}

#[test]
fn locks_are_exported_as_metrics() -> Result<()> {
    exports(&Harness::file()?)
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
    ensure!(is_one(Metrics::parse(&text)?.of_key("syncguard_lock_info", "k")?), "{text}");
    // A store that is away leaves the old file, whose age the collector exports.
    ensure!(run("redis://127.0.0.1:1")?.status.code() == Some(69));
    ensure!(fs::read_to_string(&file)? == text);
    holder.end()?.expect(0).map(drop)
}

#[test]
fn locks_on_redis_are_exported_as_metrics() -> Result<()> {
    let server = RedisServer::start()?;
    let harness = Harness::at(server.url(), None);
    exports(&harness)?;
    // A record that makes no sense hides no lock.
    server.cli(&["SET", "syncguard:hunter7", "{"])?;
    let metrics = Metrics::parse(&harness.run(&["export"])?.expect(0)?.stdout)?;
    ensure!(metrics.0["syncguard_lock_records_corrupt"] == [(Labels::new(), 1.0)], "{metrics:?}");
    Ok(())
}
