//! Formats the report.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::cost::Times;
use super::finding::{Finding, Level};
use super::report::Report;
use crate::escape::escape_for_terminal;
use crate::output::colored;

pub(super) fn as_text(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        // A text may have the name of a role or a table in it, which somebody else has chosen.
        let says = escape_for_terminal(&finding.says);
        let _ = writeln!(text, "{} {}: {says}", mark(finding.level), finding.about);
        if let Some(mend) = &finding.mend {
            let _ = writeln!(text, "         {}", escape_for_terminal(mend));
        }
    }
    if let Some(cost) = &report.cost {
        for (name, times) in [("acquire", &cost.acquire), ("release", &cost.release)] {
            let trips = match times.round_trips {
                0 => "no network".to_owned(),
                1 => "1 round trip".to_owned(),
                more => format!("{more} round trips"),
            };
            let (p50, p99) = (millis(times.p50), millis(times.p99));
            let _ = writeln!(text, "{name}: p50 {p50} ms, p99 {p99} ms, {trips}");
        }
    }
    text.trim_end().to_owned()
}

fn mark(level: Level) -> String {
    use anstyle::AnsiColor;

    // The word is for readers who see no colors.
    match level {
        Level::Green => colored("[green ]", AnsiColor::Green),
        Level::Yellow => colored("[yellow]", AnsiColor::Yellow),
        Level::Red => colored("[red   ]", AnsiColor::Red),
    }
}

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

pub(super) fn as_json(report: &Report) -> Value {
    let times = |times: &Times| {
        json!({
            "p50Micros": u64::try_from(times.p50.as_micros()).unwrap_or(u64::MAX),
            "p99Micros": u64::try_from(times.p99.as_micros()).unwrap_or(u64::MAX),
            "roundTrips": times.round_trips,
        })
    };
    json!({
        "backend": report.backend,
        "level": report.worst().as_str(),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "cost": report.cost.as_ref().map(|cost| json!({
            "acquire": times(&cost.acquire),
            "release": times(&cost.release),
        })),
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "level": finding.level.as_str(),
        "about": finding.about,
        "says": finding.says,
        "mend": finding.mend,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_the_store_do_not_reach_the_terminal_raw() {
        let findings = vec![Finding::yellow("schema", "role \u{1b}[2J", "FROM \"\u{202e}\"")];
        let text = as_text(&Report { findings, ..Report::default() });
        assert!(text.contains(r"role \u{1b}[2J") && text.contains(r#"FROM "\u{202e}""#), "{text}");
    }
}
