//! Tasks that never stop, whatever the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use syncguard_postgres::contract::{AcquireResult, ExtendRequest, IsLockedRequest, ReleaseRequest};
use syncguard_postgres::{ErrorCode, LockBackend as _, LockError, LockId, PostgresBackend};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::stage::STATEMENT;
use crate::postgres::support::{MINUTE, request, take};

const TASKS: usize = 24;

/// The work of each task, and its errors.
#[derive(Default)]
struct Count {
    rounds: Vec<AtomicUsize>,
    errors: AtomicUsize,
    unknown: AtomicUsize,
}

/// The tasks, at work.
pub(super) struct Crowd {
    tasks: JoinSet<Result<()>>,
    count: Arc<Count>,
    over: Arc<AtomicBool>,
}

impl Crowd {
    /// Each task has locks to extend and to release, and works on its own keys.
    pub(super) async fn gather(backend: &PostgresBackend) -> Result<Self> {
        let count =
            Count { rounds: (0..TASKS).map(|_| AtomicUsize::new(0)).collect(), ..Count::default() };
        let (count, over) = (Arc::new(count), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let mut held = Vec::new();
            for lock in 0..10 {
                held.push(take(backend, &format!("held {task} {lock}")).await.lock_id);
            }
            let (backend, count, over) = (backend.clone(), Arc::clone(&count), Arc::clone(&over));
            tasks.spawn(async move {
                let mut round = 0;
                while !over.load(Ordering::SeqCst) {
                    round += 1;
                    let key = format!("key {task} {round}");
                    if once(&backend, &count, &key, &mut held).await? {
                        count.rounds[task].fetch_add(1, Ordering::SeqCst);
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Ok(())
            });
        }
        let crowd = Self { tasks, count, over };
        crowd.all_are_served().await?;
        Ok(crowd)
    }

    /// Waits until every task has had a round without errors. Returns the time that it took.
    pub(super) async fn all_are_served(&self) -> Result<Duration> {
        let started = Instant::now();
        let rounds = || self.count.rounds.iter().map(|rounds| rounds.load(Ordering::SeqCst));
        let before: Vec<usize> = rounds().collect();
        loop {
            let left = rounds().zip(&before).filter(|(now, before)| now <= before).count();
            if left == 0 {
                return Ok(started.elapsed());
            }
            if started.elapsed() > MINUTE {
                bail!("{left} of {TASKS} tasks were not served within a minute");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The number of errors, and of those with an unknown outcome.
    pub(super) fn errors(&self) -> (usize, usize) {
        let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (of(&self.count.errors), of(&self.count.unknown))
    }

    /// Ends the tasks.
    pub(super) async fn leave(mut self) -> Result<()> {
        self.over.store(true, Ordering::SeqCst);
        while let Some(task) = self.tasks.join_next().await {
            task??;
        }
        Ok(())
    }
}

/// Runs each operation once, none longer than its bounds. Returns true without errors.
async fn once(
    backend: &PostgresBackend,
    count: &Count,
    key: &str,
    held: &mut Vec<LockId>,
) -> Result<bool> {
    let mut well = true;
    let acquired = match bounded(backend.acquire(request(key, MINUTE))).await? {
        Ok(AcquireResult::Acquired(lock)) => Some(lock.lock_id),
        Ok(AcquireResult::Locked(_) | AcquireResult::Refused(_)) => bail!("a key of its own"),
        Err(error) => told(count, &error, &mut well)?,
    };
    if let Err(error) = bounded(backend.is_locked(IsLockedRequest::new(key)?)).await? {
        told::<()>(count, &error, &mut well)?;
    }
    if let Some(&id) = held.last()
        && let Err(error) = bounded(backend.extend(ExtendRequest::new(id, MINUTE)?)).await?
    {
        told::<()>(count, &error, &mut well)?;
    }
    if let Some(id) = acquired.or_else(|| held.pop())
        && let Err(error) = bounded(backend.release(ReleaseRequest::new(id))).await?
    {
        told::<()>(count, &error, &mut well)?;
    }
    Ok(well)
}

/// The wait for a connection, the statement, and time for a busy machine.
async fn bounded<T>(operation: impl Future<Output = T>) -> Result<T> {
    let longest = 2 * STATEMENT + STATEMENT + 2 * STATEMENT;
    Ok(timeout(longest, operation).await?)
}

/// Records an error, which a late server must explain.
fn told<T>(count: &Count, error: &LockError, well: &mut bool) -> Result<Option<T>> {
    let code = error.code();
    let expected =
        [ErrorCode::NetworkTimeout, ErrorCode::RateLimited, ErrorCode::ServiceUnavailable];
    ensure!(expected.contains(&code), "{error:?}");
    *well = false;
    count.errors.fetch_add(1, Ordering::SeqCst);
    count.unknown.fetch_add(usize::from(error.is_outcome_unknown()), Ordering::SeqCst);
    Ok(None)
}
