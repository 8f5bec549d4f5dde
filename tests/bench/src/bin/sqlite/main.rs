//! `cargo xtask bench sqlite`: cycles of acquire and release, each on an uncontended key.
//!
//! A table goes to the terminal, the ratios to `target/bench/sqlite.json`.

mod bare;

use std::sync::{Arc, Mutex};

use anyhow::Result;
use syncguard_bench::{Options, Report, Table, Way, cycle, folder};
use syncguard_sqlite::{SqliteBackend, SqliteOptions, Synchronous};

use crate::bare::Bare;

const CALLERS: [usize; 3] = [1, 16, 64];

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&[])?;
    let (time, mut report) = (options.time(400, 1500)?, Report::default());
    // On the disk: a folder for temporary files may be in memory.
    let folder = tempfile::tempdir_in(folder()?)?;
    let open = async |name: &str, synchronous| {
        let options = SqliteOptions::new().with_synchronous(synchronous);
        SqliteBackend::open_with(folder.path().join(name), options).await
    };
    let bare = |name: &str, synchronous| -> Result<_> {
        Ok(Arc::new(Mutex::new(Bare::open(&folder.path().join(name), synchronous)?)))
    };
    for callers in CALLERS {
        let ways = vec![
            Locks::Backend(open("full.db", Synchronous::Full).await?, "(a) synchronous=full"),
            Locks::Bare(bare("bare-full.db", "FULL")?, "(b) same SQL, bare rusqlite"),
            Locks::Backend(open("normal.db", Synchronous::Normal).await?, "(c) synchronous=normal"),
            Locks::Bare(bare("bare-normal.db", "NORMAL")?, "(d) same SQL, bare rusqlite"),
        ];
        let table = Table::measure(ways, callers, time).await?;
        table.print("");
        let (full, normal) = (table.ratio(0, 1), table.ratio(2, 3));
        report.ratio(callers, "the same SQL on rusqlite", full);
        println!("    {callers} at once, (a) for each of (b) {full:.2}, (c) for (d) {normal:.2}");
        match callers {
            1 => report.at_least("1 at once, (a) for each of (b)", full, 0.5),
            64 => report.at_least("64 at once, (a) for each of (b)", full, 3.0),
            _ => {}
        }
    }
    report.end("sqlite", options.check)
}

#[derive(Clone)]
enum Locks {
    Backend(SqliteBackend, &'static str),
    Bare(Arc<Mutex<Bare>>, &'static str),
}

impl Way for Locks {
    fn name(&self) -> &'static str {
        match self {
            Self::Backend(_, name) | Self::Bare(_, name) => name,
        }
    }

    fn blocks(&self) -> bool {
        matches!(self, Self::Bare(..))
    }

    fn settle(&self) {
        rustix::fs::sync();
    }

    async fn cycle(&self, task: usize) -> Result<()> {
        let key = format!("key {task}");
        match self {
            Self::Backend(backend, _) => cycle(backend, &key).await,
            Self::Bare(bare, _) => bare.lock().unwrap().cycle(&key),
        }
    }
}
