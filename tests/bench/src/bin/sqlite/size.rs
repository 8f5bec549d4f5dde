//! How large the files are after many cycles.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value as Json, json};
use syncguard_sqlite::{SqliteBackend, SqliteOptions, Synchronous};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::ways::cycle;

pub(crate) fn measure(runtime: &Runtime, folder: &Path, cycles: usize) -> Result<Json> {
    const KEYS: usize = 100;
    let path = folder.join("size.db");
    let options = SqliteOptions::new().with_synchronous(Synchronous::Normal);
    let backend = runtime.block_on(SqliteBackend::open_with(&path, options))?;
    let mut tasks = JoinSet::new();
    for number in 0..KEYS {
        let backend = backend.clone();
        tasks.spawn_on(
            async move {
                for _ in 0..cycles / KEYS {
                    cycle(&backend, &format!("key {number}")).await?;
                }
                anyhow::Ok(())
            },
            runtime.handle(),
        );
    }
    runtime.block_on(async {
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        anyhow::Ok(())
    })?;
    let size = |suffix: &str| {
        let mut name = path.clone().into_os_string();
        name.push(suffix);
        std::fs::metadata(name).map_or(0, |metadata| metadata.len())
    };
    let (file, log) = (size(""), size("-wal"));
    println!("\n  After {cycles} cycles of {KEYS} keys: the file has {file} bytes, its log {log}.");
    Ok(json!({ "cycles": cycles, "keys": KEYS, "file": file, "log": log }))
}
