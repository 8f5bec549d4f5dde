//! What only `cargo xtask test --full` runs, and why a contributor need not wait for it.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

/// Tests of one program, by the beginning of their names.
struct Later {
    program: &'static str,
    tests: &'static [&'static str],
    reason: &'static str,
}

const LATER: &[Later] = &[];

/// The names that a quick run of this program skips.
pub(super) fn skipped(program: &str) -> impl Iterator<Item = &'static str> {
    let mine = LATER.iter().filter(move |later| later.program == program);
    mine.flat_map(|later| later.tests.iter().copied())
}

pub(super) fn list() -> String {
    let mut text = String::new();
    for Later { program, tests, reason } in LATER {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{program}: {}\n    {reason}", tests.join(", "));
    }
    text
}

/// Each program that is named above is there.
pub(super) fn check(names: &[String]) -> Result<()> {
    for Later { program, .. } in LATER {
        let is_there = names.iter().any(|name| name == program);
        ensure!(is_there, "xtask/src/test/later.rs names `{program}`, which cargo has not built");
    }
    Ok(())
}
