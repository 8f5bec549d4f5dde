//! Ticks of a process whose clock is wrong, and ticks beside the TypeScript library.

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::LockId;
use syncguard_tests::ticks::{Clock, outlast_a_stepped_clock, share_the_key};

use crate::postgres::support::{Tables, connect, shared};
use crate::postgres::typescript;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_stepped_uses_up_no_tick() -> Result<()> {
    let tables = Tables::fresh();
    let right = [tables.backend(2).await, tables.backend(2).await];
    outlast_a_stepped_clock(right, tables.backend(2).await, &Clock::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_lock_of_the_typescript_library_uses_up_a_fence() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(2).await;
    let url = shared().url();
    let acquire = async |key: &str| {
        let mut client = connect(&url).await;
        let acquired = typescript::acquire(&mut client, &tables, key, 60_000).await?;
        let (lock_id, fence) = acquired.context("a free key")?;
        Ok((fence.parse()?, lock_id))
    };
    let release = async |lock_id: LockId| {
        let mut client = connect(&url).await;
        ensure!(typescript::release(&mut client, &tables, lock_id).await?);
        Ok(())
    };
    share_the_key(backend, acquire, release).await
}
