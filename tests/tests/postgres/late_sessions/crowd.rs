//! Tasks that never stop, whatever the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Result, bail, ensure};
use syncguard_postgres::contract::{AcquireResult, ExtendRequest, IsLockedRequest, ReleaseRequest};
use syncguard_postgres::{ErrorCode, LockBackend as _, LockError, LockId, PostgresBackend};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep, timeout};

use crate::postgres::support::{MINUTE, SOON, request, until};

const TASKS: usize = 24;

/// The work of each task, and the errors of all.
#[derive(Default)]
struct Count {
    rounds: [AtomicUsize; TASKS],
    errors: AtomicUsize,
    is_over: AtomicBool,
}

/// The tasks, at work.
pub(super) struct Crowd {
    tasks: JoinSet<Result<()>>,
    count: Arc<Count>,
}

impl Crowd {
    /// Each task has locks to extend and to release, and works on its own keys.
    pub(super) async fn gather(backend: &PostgresBackend) -> Result<Self> {
        let count = Arc::new(Count::default());
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let mut held = Vec::new();
            for lock in 0.. {
                if held.len() == 10 {
                    break;
                }
                // An answer can be late without a fault, beside the tasks that are at work.
                let asked = backend.acquire(request(&format!("held {task} {lock}"), MINUTE));
                let answer = told(asked, &mut 0).await?.and_then(AcquireResult::acquired);
                held.extend(answer.map(|lock| lock.lock_id));
            }
            let (backend, count) = (backend.clone(), Arc::clone(&count));
            tasks.spawn(async move {
                for round in 0.. {
                    if count.is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    let errors = once(&backend, &format!("key {task} {round}"), &mut held).await?;
                    count.rounds[task].fetch_add(usize::from(errors == 0), Ordering::SeqCst);
                    count.errors.fetch_add(errors, Ordering::SeqCst);
                    sleep(Duration::from_millis(10)).await;
                }
                Ok(())
            });
        }
        let crowd = Self { tasks, count };
        crowd.all_are_served().await?;
        Ok(crowd)
    }

    /// Waits until every task has had a round without errors.
    pub(super) async fn all_are_served(&self) -> Result<()> {
        let rounds = || self.count.rounds.iter().map(|rounds| rounds.load(Ordering::SeqCst));
        let before: Vec<usize> = rounds().collect();
        until("a round of every task", async || {
            Ok(rounds().zip(&before).all(|(now, before)| now > *before))
        })
        .await
    }

    pub(super) fn errors(&self) -> usize {
        self.count.errors.load(Ordering::SeqCst)
    }

    /// Ends the tasks.
    pub(super) async fn leave(mut self) -> Result<()> {
        self.count.is_over.store(true, Ordering::SeqCst);
        while let Some(task) = self.tasks.join_next().await {
            task??;
        }
        Ok(())
    }
}

/// Runs each operation once. Returns the number of errors.
async fn once(backend: &PostgresBackend, key: &str, held: &mut Vec<LockId>) -> Result<usize> {
    let mut errors = 0;
    let acquired = match told(backend.acquire(request(key, MINUTE)), &mut errors).await? {
        Some(AcquireResult::Acquired(lock)) => Some(lock.lock_id),
        Some(AcquireResult::Busy(_) | AcquireResult::Refused(_)) => bail!("a key of its own"),
        None => None,
    };
    told(backend.is_locked(IsLockedRequest::new(key)?), &mut errors).await?;
    if let Some(&id) = held.last() {
        told(backend.extend(ExtendRequest::new(id, MINUTE)?), &mut errors).await?;
    }
    if let Some(id) = acquired.or_else(|| held.pop()) {
        told(backend.release(ReleaseRequest::new(id)), &mut errors).await?;
    }
    Ok(errors)
}

/// Waits for an answer, and counts an error, which a late server must explain.
async fn told<T>(
    operation: impl Future<Output = Result<T, LockError>>,
    errors: &mut usize,
) -> Result<Option<T>> {
    match timeout(SOON, operation).await? {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => {
            let expected =
                [ErrorCode::NetworkTimeout, ErrorCode::RateLimited, ErrorCode::ServiceUnavailable];
            ensure!(expected.contains(&error.code()), "{error:?}");
            *errors += 1;
            Ok(None)
        }
    }
}
