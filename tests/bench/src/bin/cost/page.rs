//! The figures in the pages for users.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::rows::{Figures, What, number};

/// The guide's table: what a line is about, and its figure.
const LINES: &[(&str, What)] = &[
    ("a lock and its release: instructions of the server", What::Instructions),
    ("the same by hand, without a fence and without a release by id", What::ByHand),
    ("an acquire of a held lock: instructions of the server", What::InstructionsOfARefusal),
    ("an extend: instructions of the server", What::InstructionsOfAnExtend),
    ("an extend: bytes of log", What::LogOfAnExtend),
    ("a lock and its release: allocations of the client", What::Allocations),
    ("10 000 locks of 30 s held and renewed: requests a second", What::RenewalRequests),
    ("1 000 locks waited for, nothing happens: requests a second", What::WaitingRequests),
    ("the counter of a key: bytes", What::BytesOfACounter),
];

const BEGINNING: &str = "<!-- written by `cargo xtask bench cost -- --write` -->\n";
const END: &str = "<!-- end -->\n";

/// The beginning of README's line, whose other cells are written.
const README: &str = "| work of the server for a lock and its release |";

pub(crate) fn write(figures: &Figures) -> Result<()> {
    for (path, place) in [
        ("crates/syncguard/src/guide/costs.md", in_guide as fn(&str, &Figures) -> Result<String>),
        ("README.md", in_readme),
    ] {
        let path = root().join(path);
        let text = place(&fs::read_to_string(&path)?, figures)?;
        fs::write(path, text)?;
    }
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn in_guide(page: &str, figures: &Figures) -> Result<String> {
    let (before, rest) = page.split_once(BEGINNING).context("no table in the guide")?;
    let (_, after) = rest.split_once(END).context("no end of the guide's table")?;
    let mut table = String::from("| | Redis | PostgreSQL |\n|---|---|---|\n");
    for &(line, what) in LINES {
        let cell = |store| figures.get(figures.now(), store, what).map(number).unwrap_or_default();
        table += &format!("| {line} | {} | {} |\n", cell("redis"), cell("postgres"));
    }
    Ok(format!("{before}{BEGINNING}{table}{END}{after}"))
}

fn in_readme(page: &str, figures: &Figures) -> Result<String> {
    let times = |what, store| {
        let of =
            |what| figures.get(figures.now(), store, what).context("no instructions were counted");
        Ok(format!("{:.2} of SyncGuard's", of(what)? / of(What::Instructions)?)) as Result<String>
    };
    let (rslock, advisory) = (times(What::ByHand, "redis")?, times(What::Advisory, "postgres")?);
    let line = format!("{README} {rslock} | {advisory} | 1 |");
    let is_ours = |line: &&str| line.starts_with(README);
    let old = page.lines().find(is_ours).context("no line in README")?;
    Ok(page.replace(old, &line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_have_a_place_for_each_figure() {
        let mut figures = Figures::new(1);
        for store in ["redis", "postgres"] {
            for what in [What::Instructions, What::ByHand] {
                figures.add(0, store, what, 1000.0).unwrap();
            }
        }
        figures.add(0, "postgres", What::Advisory, 500.0).unwrap();
        let read = |path| fs::read_to_string(root().join(path)).unwrap();
        let (guide, readme) = (read("crates/syncguard/src/guide/costs.md"), read("README.md"));
        for (line, _) in LINES {
            assert!(guide.contains(&format!("\n| {line} | ")), "{line}");
        }
        assert!(in_guide(&guide, &figures).unwrap().contains("server | 1 000 | 1 000 |\n"));
        assert!(in_readme(&readme, &figures).unwrap().contains("| 1.00 of SyncGuard's | 0.50"));
    }
}
