//! `cargo xtask bench waiting`: many waiters for one key, in one process and in several.
//!
//! Each waiter waits, works for a while as the holder, gives the lock back and waits again. Waiters are in
//! child processes, also where there is one process alone: this program once more, with a job. Each writes
//! down when it asked, got the lock, began to give it back and had done so, by a clock that all processes
//! of the machine share, so that the parent can put the turns of all in order.
//!
//! Columns: the time from the beginning of a release to the next grant, whoever gets it (p50, p50 over that of
//! the store's floor, p99); the part of the time in which somebody worked; the longest wait; commands that the store
//! was sent for each time that the lock changed hands; failures. The store's floor is a lock that changes hands over
//! raw connections. `--store` and `--row` choose one store, and rows by a part of their names.

mod beside;
mod child;
mod contest;
mod crash;
mod far;
mod figures;
mod floor;
mod job;
mod poller;
mod process;
mod row;
mod stores;
mod tables;

use anyhow::{Context as _, Result};
use syncguard_bench::Options;

use crate::tables::Tables;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == process::CHILD).is_some() {
        let job = arguments.next().context("a child without a job")?;
        let (url, job): (String, _) = serde_json::from_str(&job)?;
        return child::run(&url, &job).await;
    }
    let options = Options::parse(&["--store", "--row"])?;
    let mut tables = Tables::new(options)?;
    if tables.wants_store("memory") {
        stores::memory(&mut tables).await?;
    }
    if tables.wants_store("redis") {
        stores::redis(&mut tables).await?;
    }
    if tables.wants_store("postgres") {
        stores::postgres(&mut tables).await?;
    }
    if tables.wants_store("firestore") {
        stores::firestore(&mut tables).await?;
    }
    tables.end()
}
