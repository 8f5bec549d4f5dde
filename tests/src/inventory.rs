//! A listing of many locks while other locks come and go.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{AcquireRequest, ReleaseRequest};
use syncguard::inventory::{Inventory, ListRequest};
use syncguard::{CancellationToken, LockBackend};

/// Locks that are held all the time: `key(prefix, 0)` to `key(prefix, count - 1)`.
fn key(prefix: &str, number: usize) -> String {
    format!("{prefix}{number:06}")
}

/// The inventory of a backend that has one.
///
/// # Panics
///
/// If it has none.
pub fn inventory<B: LockBackend>(backend: &B) -> Inventory<B::Fence> {
    backend.inventory().expect("an inventory")
}

/// Reads all pages while other locks are taken and released between the `count` held locks, and checks that each of
/// these is listed once and no key twice.
///
/// # Errors
///
/// The backend's error, or the error of the listing.
pub async fn shows_each_once<B: LockBackend>(
    backend: &B,
    others: &B,
    prefix: &str,
    count: usize,
) -> Result<()> {
    let done = CancellationToken::new();
    let churn = tokio::spawn(churn(others.clone(), prefix.to_owned(), count, done.clone()));
    let request = ListRequest::new().with_prefix(prefix).with_page_size(ListRequest::MAX_PAGE_SIZE);
    let mut listed = HashSet::with_capacity(count);
    let (mut pages, mut passing) = (0, 0);
    let (inventory, mut next) = (inventory(backend), Some(request));
    while let Some(request) = next {
        let page = inventory.list_locks(request).await?;
        ensure!(page.corrupt.is_empty(), "a record makes no sense");
        ensure!(page.entries.len() <= ListRequest::MAX_PAGE_SIZE, "a page is too large");
        pages += 1;
        for lock in page.entries {
            let text = lock.expose().key.expose().to_owned();
            passing += usize::from(text.ends_with('+'));
            ensure!(listed.insert(text), "a key is listed twice");
        }
        next = page.next;
    }
    done.cancel();
    let cycles = churn.await??;
    let missed = (0..count).filter(|number| !listed.contains(&key(prefix, *number))).count();
    ensure!(missed == 0, "{missed} of {count} locks are missing on {pages} pages");
    ensure!(listed.len() == count + passing, "keys of nobody are listed");
    ensure!(cycles > 0, "nothing came or went");
    Ok(())
}

/// Takes and releases locks whose keys lie between the held keys, until it is told to stop.
async fn churn<B: LockBackend>(
    backend: B,
    prefix: String,
    count: usize,
    done: CancellationToken,
) -> Result<usize> {
    const HELD: usize = 50;
    // This number shares no factor with a round number, so the keys are spread out.
    const STEP: usize = 7919;
    let (mut held, mut cycles) = (VecDeque::new(), 0);
    while !done.is_cancelled() {
        let key = format!("{}+", key(&prefix, cycles * STEP % count));
        let answer = backend.acquire(AcquireRequest::new(key, HOUR)?).await?;
        if let Some(lock) = answer.acquired() {
            held.push_back(lock.lock_id);
        }
        if held.len() > HELD {
            let oldest = held.pop_front().context("a lock")?;
            backend.release(ReleaseRequest::new(oldest)).await?;
        }
        cycles += 1;
    }
    Ok(cycles)
}

const HOUR: Duration = Duration::from_secs(3600);
