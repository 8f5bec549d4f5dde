//! Waiters that want the same keys: the child's side.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use syncguard_bench::{Lock, clock};
use syncguard_core::Jitter;
use tokio::task::JoinSet;

use crate::job::{Contest, Outcome, Spread, Turn};
use crate::process::wait_for_start;

/// Runs the waiters of this process, and returns the results.
pub(crate) async fn run<L: Lock>(contest: &Contest, lock: L) -> Result<Outcome> {
    // Prepares connections and scripts, which are not measured.
    let warm = format!("warm:{}", std::process::id());
    for _ in 0..20 {
        let guard = lock.acquire(&warm).await.map_err(|error| anyhow!(error))?;
        lock.release(guard).await.map_err(|error| anyhow!(error))?;
    }

    let start = tokio::task::block_in_place(wait_for_start)?;
    let end = start + u64::try_from(contest.time.as_nanos())?;
    let contest = Arc::new(contest.clone());
    let mut waiters = JoinSet::new();
    clock::until(start).await?;
    for _ in 0..contest.waiters {
        waiters.spawn(wait(lock.clone(), Arc::clone(&contest), end));
    }
    let mut outcome = Outcome::default();
    while let Some(waiter) = waiters.join_next().await {
        let waiter = waiter??;
        outcome.turns.extend(waiter.turns);
        for (failure, count) in waiter.failures {
            *outcome.failures.entry(failure).or_default() += count;
        }
    }
    Ok(outcome)
}

async fn wait(lock: impl Lock, contest: Arc<Contest>, end: u64) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    loop {
        let requested = clock::now();
        if requested >= end {
            return Ok(outcome);
        }
        let number = Duration::from_nanos(contest.keys.len() as u64);
        let key = usize::try_from(Jitter::Full.of(number).as_nanos())?;
        let guard = match lock.acquire(&contest.keys[key]).await {
            Ok(guard) => guard,
            Err(failure) => {
                *outcome.failures.entry(failure).or_default() += 1;
                // Not to fail faster than the store can answer.
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
        };
        let granted = clock::now();
        rest(contest.work).await?;
        let release_begun = clock::now();
        let released = lock.release(guard).await;
        // At the end, other processes end their streams. The emulator then fails commits that it carries out.
        if let Err(failure) = released
            && clock::now() < end
        {
            *outcome.failures.entry(failure).or_default() += 1;
        }
        outcome.turns.push(Turn { key, requested, granted, release_begun });
        rest(contest.rest).await?;
    }
}

async fn rest(spread: Spread) -> Result<()> {
    let time = spread.any();
    if time.is_zero() { Ok(()) } else { clock::exactly(time).await }
}
