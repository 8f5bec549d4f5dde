//! Ticks of a process whose clock is wrong, and ticks beside the TypeScript library.

use anyhow::{Context as _, Result, ensure};
use syncguard_firestore::{FirestoreOptions, LockId};
use syncguard_tests::ticks::{Clock, outlast_a_stepped_clock, share_the_key};

use crate::firestore::support::{Raw, backend, backend_with, fresh, options};
use crate::firestore::transactional::Transactional;

/// The clients' clocks decide about locks here, and the backend of the process has its wrong clock too. The backend learns
/// from each answer by how much its clock is at most ahead of the server's, and takes a tick only if the server's time has
/// reached it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_stepped_uses_up_no_tick() -> Result<()> {
    let (url, clock) = (fresh(), Clock::default());
    let shown = clock.clone();
    let wrong: FirestoreOptions = options().with_clock(move || shown.now());
    let right = [backend(&url).await, backend(&url).await];
    outlast_a_stepped_clock(right, backend_with(&url, wrong).await, &clock).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_lock_of_the_typescript_library_uses_up_a_fence() -> Result<()> {
    let url = fresh();
    let theirs = Transactional(Raw::new(&url));
    let acquire = async |key: &str| {
        let lock_id = LockId::generate()?;
        let fence = theirs.acquire(key, lock_id, 60_000).await?;
        Ok((fence.context("a free key")?, lock_id))
    };
    let release = async |lock_id: LockId| {
        ensure!(theirs.release(lock_id).await?);
        Ok(())
    };
    share_the_key(backend(&url).await, acquire, release).await
}
