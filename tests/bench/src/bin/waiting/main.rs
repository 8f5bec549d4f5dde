//! `cargo xtask bench waiting`: many waiters for one key, in one process and in several.
//!
//! Each waiter waits, works for a while as the holder, gives the lock back and waits again. Waiters are in
//! child processes, also where there is one process alone: this program once more, with a job. Each writes
//! down when it asked, got the lock, began to give it back and had done so, by a clock that all processes
//! of the machine share, so that the parent can put the turns of all in order.
//!
//! Columns: the time from the beginning of a release to the next grant, whoever gets it (p50, p50 over that of
//! the store's floor, p99, longest); the part of the time in which somebody worked; the longest wait, and how
//! many times that of the last one in an ideal line; commands that the store was sent for each time that the
//! lock changed hands; failures. The store's floor is a lock that changes hands over raw connections.
//!
//! A table goes to the terminal, everything to `target/bench/waiting.json`.

mod child;
mod clock;
mod commands;
mod contest;
mod crash;
mod deaf;
mod fairness;
mod far;
mod figures;
mod floor;
mod job;
mod locks;
mod options;
mod process;
mod report;
mod requests;
mod row;
mod situations;
mod stores;
#[path = "../../../../tests/firestore/support.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod support;
mod targets;
mod weight;

use std::alloc::System;

use anyhow::{Context as _, Result};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::job::{Job, Store};
use crate::options::Options;
use crate::report::Report;

#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == process::CHILD).is_some() {
        let job = arguments.next().context("a child without a job")?;
        let (store, job): (Store, Job) = serde_json::from_str(&job)?;
        return runtime.block_on(child::run(&store, &job));
    }
    let options = Options::parse()?;
    runtime.block_on(run(&options))
}

async fn run(options: &Options) -> Result<()> {
    let mut report = Report::default();
    print_load()?;
    if options.wants_store("memory") {
        stores::memory::measure(&mut report, options).await?;
    }
    if options.wants_store("redis") {
        stores::redis::measure(&mut report, options).await?;
    }
    if options.wants_store("postgres") {
        stores::postgres::measure(&mut report, options).await?;
    }
    if options.wants_store("sqlite") {
        stores::sqlite::measure(&mut report, options).await?;
    }
    if options.wants_store("firestore") {
        stores::firestore::measure(&mut report, options).await?;
    }
    if options.wants_store("etcd") {
        stores::etcd::measure(&mut report, options).await?;
    }
    println!();
    print_load()?;
    report.end(options.check())
}

/// The other load of the machine.
fn print_load() -> Result<()> {
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let minute = load.split(' ').next().unwrap_or_default();
    println!("load {minute} on {} processors", std::thread::available_parallelism()?);
    Ok(())
}
