//! A backend in a `static` is used from several runtimes, as tests of programs do.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard::{AutoExtend, LockBackend, LockConfig, LockError, acquire};
use syncguard_test_services::store::Store;
use syncguard_test_services::test_each_server;
use tokio::runtime::{Builder, Runtime};

use super::{at, port};
use crate::differential::stores::part;

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

async fn work<B: LockBackend>(backend: &B) -> Result<(), LockError> {
    let config = LockConfig::new("key").with_auto_extend(AutoExtend::new());
    acquire(backend, config).await?.release().await.map(drop)
}

/// Uses a backend in runtimes that end, and beside one that stands still.
fn one_after_another(store: Store) -> Result<()> {
    // The calls that fail take this long.
    let make = async || at(store, port(store), &part(), Duration::from_secs(3)).await;
    let first = runtime()?;
    let backend = first.block_on(make())?;
    first.block_on(work(&backend))?;
    drop(first);
    // More of them than there are seconds, and no call fails.
    for _ in 0..5 {
        runtime()?.block_on(work(&backend))?;
    }
    // A guard that is dropped at the end of its runtime is given back in the next.
    runtime()?.block_on(async { acquire(&backend, "left").await.map(drop) })?;
    runtime()?.block_on(async { acquire(&backend, "left").await?.release().await })?;
    // A runtime outside of `block_on` runs no tasks: a call or two notice it, or one for each connection of a pool over HTTP.
    let most = if store == Store::ObjectStore { 8 } else { 2 };
    let works_soon = |runtime: &Runtime| {
        let mut failures = 0;
        while let Err(error) = runtime.block_on(work(&backend)) {
            failures += 1;
            ensure!(error.is_retryable() && failures <= most, "{error:?}");
        }
        Ok(())
    };
    let (standing, next) = (runtime()?, runtime()?);
    standing.block_on(work(&backend))?;
    works_soon(&next)?;
    works_soon(&standing)
}

test_each_server!(one_after_another);
