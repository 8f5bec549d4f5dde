//! `cargo xtask bench recipes`: the cost of recipes beside plain locks, on one Redis server.

mod memory;
mod speed;
mod waiting;

use std::alloc::System;

use anyhow::Result;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use syncguard_bench::{Options, Targets};
use syncguard_redis::RedisBackend;
use syncguard_test_services::redis::RedisServer;

#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Result<()> {
    let options = Options::parse(&["--memory"], &[])?;
    let mut goals = Targets::default();
    if !options.has("--memory") {
        speeds(&mut goals)?;
    }
    // One thread, so that no other task allocates meanwhile.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(memory::measure(&mut goals))?;
    goals.end("recipes", json!({}), options.check)
}

fn speeds(goals: &mut Targets) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = RedisServer::start()?;
        let backend = RedisBackend::connect(&server.url()).await?;
        speed::semaphore(&server, &backend, goals).await?;
        speed::lock_all(&server, &backend, goals).await?;
        waiting::measure(&server).await
    })
}

/// The number of the library's requests that the server has answered, without the commands of scripts, which the
/// server counts as well.
pub(crate) fn commands(server: &RedisServer) -> Result<u64> {
    let info = server.cli(&["INFO", "commandstats"])?;
    let calls = info.lines().filter(|line| {
        ["evalsha", "eval", "evalsha_ro", "eval_ro", "fcall", "fcall_ro", "subscribe", "ssubscribe"]
            .iter()
            .any(|name| line.starts_with(&format!("cmdstat_{name}:")))
    });
    let count = |line: &str| {
        let (_, rest) = line.split_once("calls=")?;
        rest.split(',').next()?.parse::<u64>().ok()
    };
    Ok(calls.filter_map(count).sum())
}
