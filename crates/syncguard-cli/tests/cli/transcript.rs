//! The lines that people type and read, to be compared with a file. `UPDATE_EXPECT=1` writes the files anew.

use std::fmt::Write as _;
use std::sync::LazyLock;

use anyhow::Result;
use regex::Regex;

use crate::harness::{Finished, Harness};
use crate::schema::Schema;

/// Commands, and what they print. Words stand for what differs each time.
pub(crate) struct Transcript<'a> {
    harness: &'a Harness,
    pub(crate) text: String,
}

impl<'a> Transcript<'a> {
    pub(crate) fn on(harness: &'a Harness) -> Self {
        Self { harness, text: String::new() }
    }

    /// Runs these commands, one after the other.
    pub(crate) fn run(&mut self, rows: &[&[&str]]) -> Result<()> {
        rows.iter().try_for_each(|arguments| self.add(arguments, &self.harness.run(arguments)?))
    }

    /// Adds a result, and checks its JSON against the schema.
    pub(crate) fn add(&mut self, arguments: &[&str], done: &Finished) -> Result<()> {
        let Finished { status, stdout, stderr } = done;
        if arguments.contains(&"--json") {
            Schema::of(arguments[0])?.check_lines(stdout)?;
        }
        let (typed, printed) = (arguments.join(" "), normal(&format!("{stdout}{stderr}")));
        writeln!(self.text, "$ syncguard {typed}\n{printed}[{status}]\n")?;
        Ok(())
    }
}

/// Times, lock ids and measurements, which differ each time, and the words that replace them.
const DIFFERENT: &[(&str, &str)] = &[
    // The default label of a holder: the host and the process id.
    (r#""holder":"[^\s/"]+/\d+""#, r#""holder":"<holder>""#),
    (r"(by|for|is) [^\s/]+/\d+\b", "$1 <holder>"),
    (r"(?m)^([^\s/]+/\d+|[0-9a-f]{12}) +(\d{15}) ", "<holder>      $2 "),
    (r"(?m)^(HOLDER|me & you) +", "$1  "),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<utc>"),
    (r"\b\d{13}\b", "<time>"),
    (r"\b00[1-9]\d{12}\b", "<fence of a tick>"),
    (r"(?m)^(syncguard_lock_age_seconds\{.*\}) \d{1,3}\.\d{3}$", "$1 <minutes>"),
    (r"(?m)^(syncguard_lock_expires_in_seconds\{.*\}) 3\d{3}\.\d{3}$", "$1 <an hour>"),
    (r#"("lockId":"|lock id   )[\w-]{22}"#, "$1<lock id>"),
    (r#"("lockIdHash":"|by )[0-9a-f]{24}"#, "$1<holder>"),
    (r"\b[0-9a-f]{12}\b", "<holder>    "),
    (r"p50 [\d.]+ ms, p99 [\d.]+ ms", "p50 <n> ms, p99 <n> ms"),
    (r#"("p\d\dMicros":)\d+"#, "$1<n>"),
    (r"zone data are \w+", "zone data are <version>"),
    (r"clock is \d+ ms (ahead of|behind)", "clock is <n> ms off"),
    (r#"(old store: |"counters":)\d+"#, "$1<n>"),
    (r"\b\d+(ms|s|m|h)( \d+(ms|s|m))?\b", "<duration>"),
    (r"(<duration>|AGE|LEFT) {2,}", "$1  "),
];

fn normal(text: &str) -> String {
    // A pattern takes longer to compile than to use.
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        DIFFERENT.iter().map(|(pattern, word)| (Regex::new(pattern).unwrap(), *word)).collect()
    });
    let replaced = |text: String, (pattern, word): &(Regex, &str)| {
        pattern.replace_all(&text, *word).into_owned()
    };
    PATTERNS.iter().fold(text.to_owned(), replaced)
}
