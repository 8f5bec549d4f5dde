//! `cargo xtask bench sqlite`: cycles of acquire and release, each on an uncontended key.

mod bare;

use std::sync::{Arc, Mutex};

use anyhow::Result;
use syncguard_bench::{Options, Report, Table, Way, folder};
use syncguard_sqlite::{SqliteBackend, SqliteOptions, Synchronous};

use crate::bare::Bare;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&[])?;
    let (time, mut report) = (options.time(1500)?, Report::default());
    // On the disk: a folder for temporary files may be in memory.
    let folder = tempfile::tempdir_in(folder()?)?;
    let backend = async |name, file: &str, synchronous| -> Result<Way> {
        let options = SqliteOptions::new().with_synchronous(synchronous);
        let backend = SqliteBackend::open_with(folder.path().join(file), options).await?;
        Ok(Way::backend(name, backend))
    };
    let bare = |name, file: &str, synchronous| -> Result<Way> {
        let bare = Mutex::new(Bare::open(&folder.path().join(file), synchronous)?);
        let cycle =
            |bare: Arc<Mutex<Bare>>, key: String| async move { bare.lock().unwrap().cycle(&key) };
        Ok(Way::new(name, Arc::new(bare), cycle).that_blocks())
    };
    for (callers, least) in [(1, Some(0.5)), (16, None), (64, Some(3.0))] {
        let ways = vec![
            backend("(a) synchronous=full", "full.db", Synchronous::Full).await?,
            bare("(b) same SQL, bare rusqlite", "bare-full.db", "FULL")?,
            backend("(c) synchronous=normal", "normal.db", Synchronous::Normal).await?,
            bare("(d) same SQL, bare rusqlite", "bare-normal.db", "NORMAL")?,
        ];
        let table = Table::measure(ways, callers, "", time).await?;
        table.compare([0, 1], least, &mut report);
        table.compare([2, 3], None, &mut report);
    }
    report.end(options.check)
}
