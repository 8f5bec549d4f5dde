//! The memory of a waiter: the child's side.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use stats_alloc::Region;
use syncguard_core::{LockBackend, LockError, LockGuard, Locker};

use crate::process::{Parent, tell};

/// The number of waiters on one key.
pub(crate) const WAITERS: usize = 1000;

/// Bytes per waiter.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Weight {
    /// The future of `acquire` itself.
    pub(crate) future: f64,
    /// Its allocations during the wait.
    pub(crate) heap: f64,
    /// The rest of these allocations after all waiters are gone.
    pub(crate) left: f64,
}

pub(crate) async fn run<B: LockBackend>(backend: B) -> Result<()> {
    const KEY: &str = "weight";
    let locker = Locker::new(backend);
    let guard = locker.acquire(KEY).await?;
    tokio::task::block_in_place(|| Parent.wait_for_start())?;
    // The head watches the key in the store, which is not a cost of each waiter.
    let first = locker.clone();
    let first = tokio::spawn(async move { first.acquire(KEY).await.map(drop) });
    tokio::time::sleep(Duration::from_millis(300)).await;

    let mut waiters: Vec<Acquire<'_, B>> = Vec::with_capacity(WAITERS);
    let mut future = 0;
    for _ in 0..WAITERS {
        let waiter = locker.acquire(KEY);
        future = size_of_val(&waiter);
        waiters.push(Box::pin(waiter));
    }
    let region = Region::new(crate::ALLOCATOR);
    let bytes =
        || region.change().bytes_allocated as f64 - region.change().bytes_deallocated as f64;
    let waiting = poll_fn(|context| {
        let mut waiting = 0;
        for waiter in &mut waiters {
            waiting += usize::from(waiter.as_mut().poll(context).is_pending());
        }
        Poll::Ready(waiting)
    })
    .await;
    let heap = bytes();
    ensure!(waiting == WAITERS, "one did not wait");
    for waiter in waiters.drain(..) {
        drop(waiter);
    }
    let each = |bytes: f64| bytes / WAITERS as f64;
    // The futures themselves were allocated before, and are gone as well.
    let left = each(bytes()) + future as f64;
    first.abort();
    let _ = first.await;
    let _ = guard.release().await?;
    ensure!(locker.backend().client_state().keys_in_use() == 0, "a line is left");
    tell(&Weight { future: future as f64, heap: each(heap), left })
}

type Acquire<'a, B> = Pin<Box<dyn Future<Output = Result<LockGuard<B>, LockError>> + Send + 'a>>;
